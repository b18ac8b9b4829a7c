// check on the emulator: cards' small cases, each plan with several schedules, on all CPUs.
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

/// The unit of work: a case of a card under one plan.
struct EmulatedJob {
  const Card* card = nullptr;
  const Case* card_case = nullptr;
  std::optional<Plan> plan{};  // empty: the case cannot run, and the check reports that
};

struct EmulatedCheckOptions {
  int arch = gpu::kDefaultArch;  // an architecture that the emulator supports; that of `gpu`, if
                                 // set
  std::uint64_t seed = 1;        // seed of inputs and schedules
  /// Number of runs of each case and plan, each with its own schedule: the first is compared with
  /// the expected values, and the others must give identical bytes.
  int schedules = 3;
  std::string only_case{};  // empty: all that are small enough
  /// Runs each kernel once: on the card's case with the most work for that kernel.
  bool largest_only = false;
  /// Inspects the outputs of a job that passed so far and returns what is wrong with them; may be
  /// empty. Called concurrently.
  std::function<std::string(const EmulatedJob&, const Ran&)> inspect{};
  /// Device on which all jobs run, one after the other, instead of the emulator.
  gpu::Device* gpu = nullptr;
};

/// Returns the seed of schedule `number`, from 0, in a check with this seed.
[[nodiscard]] std::uint64_t order_seed(std::uint64_t seed, int number);

/// Returns whether the emulator takes seconds, not minutes, for the case.
[[nodiscard]] bool is_quick_to_emulate(const Case& card_case);

/// Runs the cases of these cards under every plan that the emulated device supports, one job per
/// CPU at a time, each on its own device; `report` is called in the order of the jobs as they
/// finish. Findings of the emulator make a case fail. Returns the number of failures. Throws
/// fovea::Error if there was nothing to check.
int check_emulated(std::span<const Card* const> cards, const EmulatedCheckOptions& options,
                   const std::function<void(const CheckResult&)>& report);

}  // namespace fovea::lab
