// Runs compute-sanitizer on the cards' small cases: the tool that finds hangs runs first, and each
// run has a time limit.
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

/// Tools in the order in which they run: a kernel that hangs is found before it costs the other
/// tools' time.
inline constexpr std::array<std::string_view, 4> kSanitizers = {"synccheck", "racecheck",
                                                                "memcheck", "initcheck"};

struct SanitizeOptions {
  std::string only_tool{};  // empty: all
  int max_seconds = 900;    // time limit of a tool on a card: racecheck takes 400 s for attention's
                            // cases
  int jobs = 0;             // parallel runs; 0: one per CPU, at most 12
  int device = 0;
  StopFlag stop{};
};

/// Result of one tool on one card.
struct SanitizerRun {
  std::string tool;
  std::string card;
  bool passed = false;
  int errors = 0;
  double seconds = 0.0;
  std::string reason;                                       // why it did not pass
  std::string words;                                        // the command and its output
  std::map<std::string, std::vector<std::string>> cases{};  // kernels launched, by case
};

/// Throws fovea::Error if compute-sanitizer or the requested tool does not exist.
void require_sanitizer(const SanitizeOptions& options);

/// Runs the tools on children `program kernel check --small CARD`; a card whose first run hits the
/// time limit is skipped by the other tools. Cards with the most cases start first, so that no long
/// run is left alone at the end. `report` is called after each run. Throws Interrupted, after all
/// children have ended, when the user interrupts.
[[nodiscard]] std::vector<SanitizerRun> sanitize(
    const std::string& program, std::span<const Card* const> cards, const SanitizeOptions& options,
    const std::function<void(const SanitizerRun&)>& report);

/// Returns, by tool, the kernels that ship for the architecture and were not launched under it.
[[nodiscard]] std::map<std::string, std::vector<std::string>> not_launched(
    std::span<const SanitizerRun> runs, int arch);

/// Returns the result file as JSON; `logs` is the folder for the output of the runs, or empty.
[[nodiscard]] std::string to_json(const gpu::DeviceInfo& device, std::span<const SanitizerRun> runs,
                                  const std::map<std::string, std::vector<std::string>>& missing,
                                  const std::string& logs);

}  // namespace fovea::lab
