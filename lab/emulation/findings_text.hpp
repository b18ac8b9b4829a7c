// Findings for other programs: lines as compilers print them, and SARIF.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "lab/emulation/emulation.hpp"

namespace fovea::emulation {

struct SourceLine {
  std::string file{};
  int line = 0;
};

/// Parses what a finding has as source, "a.cuh:12 (inlined at b.cu:34)"; without it returns the
/// line of the PTX.
[[nodiscard]] std::vector<SourceLine> source_lines(std::string_view source, const std::string& ptx,
                                                   int line);

/// Returns lines as GCC prints them: "file:12: error: ... [race]", then "file:34: note: ...".
[[nodiscard]] std::vector<std::string> compiler_lines(const emu::Finding& finding,
                                                      const std::string& ptx);
[[nodiscard]] std::vector<std::string> compiler_lines(const Mismatch& mismatch,
                                                      const std::string& ptx);

/// Returns a SARIF 2.1.0 log: one result per finding, whose related location is the earlier access.
/// Schedules that find the same have one result together. `version` is the program's.
[[nodiscard]] nlohmann::ordered_json sarif_log(std::span<const Outcome> outcomes,
                                               const std::filesystem::path& ptx,
                                               std::string_view version);

}  // namespace fovea::emulation
