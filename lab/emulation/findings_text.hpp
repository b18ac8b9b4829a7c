// Findings for other programs: lines as compilers print them, and SARIF.
#pragma once

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
  std::string_view note{};  // what it is to the first line: "inlined here"
};

/// The file that lines of the PTX are in.
struct PtxOrigin {
  std::string file{};
  bool is_kept = true;  // false: `file` is a CUDA source or a program, whose PTX nobody sees
};

/// Parses what a finding has as source, "a.cuh:12 (inlined at b.cu:34) (inside c.h:56)"; without it
/// returns the line of the PTX, or the beginning of the file where that is not kept.
[[nodiscard]] std::vector<SourceLine> source_lines(std::string_view source, const PtxOrigin& ptx,
                                                   int line);

/// Returns lines as GCC prints them: "file:12: error: ... [race]", then "file:34: note: ...".
[[nodiscard]] std::vector<std::string> compiler_lines(const emu::Finding& finding,
                                                      const PtxOrigin& ptx);
[[nodiscard]] std::vector<std::string> compiler_lines(const Mismatch& mismatch,
                                                      const PtxOrigin& ptx);

/// Returns a SARIF 2.1.0 log: one result per finding, whose related location is the earlier access.
/// What is found at the same lines of the source has one result together. `version` is the
/// program's.
[[nodiscard]] nlohmann::ordered_json sarif_log(std::span<const Outcome> outcomes,
                                               const PtxOrigin& ptx, std::string_view version);

}  // namespace fovea::emulation
