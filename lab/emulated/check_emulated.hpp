// check on the emulator: cards' small cases, each plan on several schedules, on all CPUs.
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

/// What is checked at once: a case of a card under one plan.
struct EmulatedJob {
  const Card* card = nullptr;
  const Case* card_case = nullptr;
  std::optional<Plan> plan{};  // none: it cannot run there, which the check says
};

struct EmulatedCheckOptions {
  int arch = gpu::kDefaultArch;  // one that the emulator has; of `gpu`, if there is one
  std::uint64_t seed = 1;        // of inputs and schedules
  /// Runs of each case and plan, on as many schedules: the first is judged, and the others must
  /// give the same bytes.
  int schedules = 3;
  std::string only_case{};  // empty: all that are small enough
  /// Runs each kernel once: on the case of the card with the most work, of those of that kernel.
  bool largest_only = false;
  /// Looks at the outputs of a job that passed so far, and says what is wrong with them; may be
  /// empty. Called by several threads at a time.
  std::function<std::string(const EmulatedJob&, const Ran&)> inspect{};
  /// What all run on in the emulator's place, one after the other.
  gpu::Device* gpu = nullptr;
};

/// What the emulator's schedule `number`, from 0, of a check with this seed is drawn from.
[[nodiscard]] std::uint64_t order_seed(std::uint64_t seed, int number);

/// Whether the emulator takes seconds for the case, not minutes.
[[nodiscard]] bool is_quick_to_emulate(const Case& card_case);

/// Runs the cases of these cards under every plan there is on the emulated device, one of these on
/// each CPU at a time, each on a device of its own; `report` is called as each is done, in their
/// order. What the emulator finds wrong is a reason why a case does not pass. Returns how many did
/// not. Throws fovea::Error when there was nothing to check.
int check_emulated(std::span<const Card* const> cards, const EmulatedCheckOptions& options,
                   const std::function<void(const CheckResult&)>& report);

}  // namespace fovea::lab
