// Runs compute-sanitizer on the cards' small cases. The tool that finds hangs runs first, and each
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

/// Tools in the order in which they run: synccheck first, so that the other tools need not run
/// kernels that hang.
inline constexpr std::array<std::string_view, 4> kSanitizers = {"synccheck", "racecheck",
                                                                "memcheck", "initcheck"};

struct SanitizeOptions {
  std::string only_tool{};  // empty: all tools
  int max_seconds = 900;    // time limit per tool and card; racecheck takes 400 s for attention
  int jobs = 0;             // parallel runs; 0: one per CPU, at most 12
  int device = 0;
  StopFlag stop{};
};

/// Result of running a tool on a card.
struct SanitizerRun {
  std::string tool;
  std::string card;
  bool passed = false;
  int errors = 0;
  double seconds = 0.0;
  std::string reason;                                       // why it failed
  std::string words;                                        // the command and its output
  std::map<std::string, std::vector<std::string>> cases{};  // kernels launched, by case
};

/// Throws fovea::Error if compute-sanitizer or the requested tool does not exist.
void require_sanitizer(const SanitizeOptions& options);

/// Runs the tools on child processes `program kernel check --small CARD`. If the first run of a
/// card exceeds the time limit, the other tools skip the card. Cards with the most cases start
/// first, so that no long run remains alone at the end. Calls `report` after each run. Throws
/// Interrupted, after all children have ended, if the user interrupts the run.
[[nodiscard]] std::vector<SanitizerRun> sanitize(
    const std::string& program, std::span<const Card* const> cards, const SanitizeOptions& options,
    const std::function<void(const SanitizerRun&)>& report);

/// Returns, for each tool, the kernels of the architecture (except laboratory kernels) that were
/// not launched with the tool.
[[nodiscard]] std::map<std::string, std::vector<std::string>> not_launched(
    std::span<const SanitizerRun> runs, int arch);

/// Returns the result file as JSON; `logs` is the folder for the output of the runs, or empty.
[[nodiscard]] std::string to_json(const gpu::DeviceInfo& device, std::span<const SanitizerRun> runs,
                                  const std::map<std::string, std::vector<std::string>>& missing,
                                  const std::string& logs);

}  // namespace fovea::lab
