// compute-sanitizer over the cards' small cases: hangs first, each run with a time limit.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/stop.hpp"
#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"

namespace fovea::lab {

/// Tools in the order in which they run: a kernel that hangs is found before it costs the others'
/// time.
inline constexpr std::array<std::string_view, 4> kSanitizers = {"synccheck", "racecheck",
                                                                "memcheck", "initcheck"};

struct SanitizeOptions {
  std::string only_tool{};  // empty: all
  int most_seconds = 900;   // of one tool on one card: racecheck takes 400 for attention's cases
  int jobs = 0;             // at once; 0: as many as CPUs, at most 12
  int device = 0;
  StopFlag stop{};
};

/// One tool on one card.
struct SanitizerRun {
  std::string tool;
  std::string card;
  bool passed = false;
  int errors = 0;
  double seconds = 0.0;
  std::string reason;                                       // why it did not pass
  std::string words;                                        // the command, and all that was printed
  std::map<std::string, std::vector<std::string>> cases{};  // kernels launched, by case
};

/// Throws fovea::Error when compute-sanitizer is missing, or when there is no such tool.
void require_sanitizer(const SanitizeOptions& options);

/// Runs the tools on children `program kernel check --small CARD`; a card on which the first one
/// does not end is left out of the others. Cards with most cases begin first, so that none of the
/// long runs is alone at the end. `report` is called as each is done. Throws Interrupted,
/// with no child left, when it is to stop.
[[nodiscard]] std::vector<SanitizerRun> sanitize(
    const std::string& program, std::span<const Card* const> cards, const SanitizeOptions& options,
    const std::function<void(const SanitizerRun&)>& report);

/// Kernels that ship for the architecture and were not launched under a tool, by tool.
[[nodiscard]] std::map<std::string, std::vector<std::string>> not_launched(
    std::span<const SanitizerRun> runs, int arch);

/// The result file; `logs` is the folder of the words, or empty.
[[nodiscard]] std::string to_json(const gpu::DeviceInfo& device, std::span<const SanitizerRun> runs,
                                  const std::map<std::string, std::vector<std::string>>& missing,
                                  const std::string& logs);

}  // namespace fovea::lab
