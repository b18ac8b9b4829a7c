// Checks cards on the emulator: their small cases with each plan and several schedules, on all
// CPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "gpu/device/device.hpp"
#include "kernels/archs.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/check_cards.hpp"

namespace fovea::lab {

/// A case of a card with one plan.
struct EmulatedJob {
  const Card* card = nullptr;
  const Case* card_case = nullptr;
  std::optional<Plan> plan{};  // empty: the case cannot run, which the check reports
};

struct EmulatedCheckOptions {
  int arch = gpu::kDefaultArch;  // an emulated architecture, or that of `gpu` if set
  std::uint64_t seed = 1;        // seed of inputs and schedules
  /// Number of runs of each case and plan, each with its own schedule: the first is compared with
  /// the expected values, and the others must give identical bytes.
  int schedules = 3;
  std::string only_case{};  // empty: all cases that are small enough
  /// Runs each kernel once, with the card's case that has the most work for it.
  bool largest_only = false;
  /// Inspects the outputs of a job that passed all other checks and returns what is wrong with
  /// them; may be empty. Called concurrently.
  std::function<std::string(const EmulatedJob&, const CaseOutputs&)> inspect{};
  /// Device on which all jobs run, one after the other, instead of the emulator.
  gpu::Device* gpu = nullptr;
};

/// Returns the seed of schedule `number`, from 0, in a check with this seed.
[[nodiscard]] std::uint64_t order_seed(std::uint64_t seed, int number);

/// Returns whether the emulator takes only seconds for the case.
[[nodiscard]] bool is_quick_to_emulate(const Case& card_case);

/// Runs the cases of these cards under every plan that the emulated device supports, with one job
/// per CPU at a time, each on its own device. Calls `report` in the order of the jobs. Findings of
/// the emulator make a case fail. Returns the number of failures. Throws fovea::Error if there was
/// nothing to check.
int check_emulated(std::span<const Card* const> cards, const EmulatedCheckOptions& options,
                   const std::function<void(const CheckResult&)>& report);

}  // namespace fovea::lab
