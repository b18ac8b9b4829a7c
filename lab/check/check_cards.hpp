// check: runs cards on a device and holds their outputs against the numerics contract.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/judge.hpp"
#include "lab/check/placement.hpp"

namespace fovea::lab {

/// A run on inputs that are all alike, whose result is known without computing.
struct SmokeFigure {
  double sum = 0.0;  // of the first `count` outputs
  double expected = 0.0;
  std::int64_t count = 0;
  std::vector<double> first{};  // the first four outputs

  /// Why it is wrong; empty when it is not.
  [[nodiscard]] std::string fault() const;
};

/// What a case left behind under a plan.
struct Ran {
  const Workload& workload;
  std::span<const gpu::Launch> launches;
  std::span<const std::vector<std::byte>>
      outputs;  // the output, and the rows' scales if it has any
};

struct CheckOptions {
  std::uint64_t seed = 1;
  /// Seeds one after the other, from `seed` on. Those after the first check the small cases, those
  /// with mutants, and of a card's larger cases one each, in turn, with fewer tiles compared.
  int seeds = 5;
  std::string only_case{};  // empty: all
  bool small = false;       // only cases that are quick under compute-sanitizer; no mutants
  int runs = 0;             // of each plan, which must give the same bytes; 0: as many as is usual
  /// Called before a plan's first, second, ... run, with 0, 1, ..., and with 0 before its smoke run
  /// and before it runs behind other grids; may be empty.
  std::function<void(int run)> before_run{};
  /// Whether a case of these kernels also runs behind grids that it may overlap with, on the
  /// emulator; empty: none does.
  std::function<bool(const std::vector<std::string_view>& kernels)> overlaps{};
  /// Looks at outputs that passed so far, and says what is wrong with them; may be empty.
  std::function<std::string(const Ran&)> inspect{};
};

/// One thing that was checked: a case under a plan, or a mutant of it.
struct CheckResult {
  std::uint64_t seed = 0;
  std::string card;
  std::string case_name;
  std::string what;  // the plan, "mutant: skip bias", or empty
  std::string description{};
  Verdict verdict{};
  bool passed = false;
  std::string reason{};  // why not; for a mutant that was rejected, the gate's own words
  std::vector<std::string_view> kernels{};  // that it launched; of a mutant none is named
};

/// Whether this program has kernels of the card for the device; from the card's architecture on,
/// its cases must then run there.
[[nodiscard]] bool carries_kernels(const Card& card, const gpu::DeviceInfo& device);

/// All that was checked with one seed.
struct SeedResult {
  std::uint64_t seed = 0;
  int checked = 0;
  int failed = 0;
};

/// Whether seed number `turn`, from 0, checks this case, which is one of the card's own unless the
/// options name it.
[[nodiscard]] bool checks(const Card& card, const Case& card_case, const CheckOptions& options,
                          int turn);

/// Plans that are checked in the place of a workload's own.
using PlansOf = std::function<std::vector<Plan>(const Workload&)>;

/// A case's inputs, and what a check of its first seed compares its outputs with.
struct PreparedInputs {
  std::shared_ptr<const Workload> workload;
  std::vector<TileValues> values;
};
/// Throws fovea::Error when no kernel runs it on the device.
[[nodiscard]] PreparedInputs prepare(const Case& card_case, std::uint64_t seed,
                                     const gpu::DeviceInfo& device);

/// Checks one case with a kernel cache of the caller's, which may have other machine code for a
/// kernel, under the plans of `plans_of`, each also on mutants when the case has them. `report` is
/// called as each is done.
void check_case(gpu::KernelCache& kernels, const Card& card, const Case& card_case,
                const CheckOptions& options, const PlansOf& plans_of,
                const std::function<void(const CheckResult&)>& report);
/// The same of inputs that are there already.
void check_case(gpu::KernelCache& kernels, const Card& card, const Case& card_case,
                const PreparedInputs& inputs, const CheckOptions& options, const PlansOf& plans_of,
                const std::function<void(const CheckResult&)>& report);

/// Runs everything that `options` asks of these cards, but for cards without kernels for the
/// device; `report` is called as each is done, and `seed_done`, which may be empty, after each
/// seed. Returns how many did not pass. Throws fovea::Error when there was nothing to check.
int check(gpu::Device& device, std::span<const Card* const> cards, const CheckOptions& options,
          const std::function<void(const CheckResult&)>& report,
          const std::function<void(const SeedResult&)>& seed_done = {});

/// What was checked, as JSON: the device, and card, case, plan and kernels of each.
[[nodiscard]] std::string to_json(const gpu::DeviceInfo& device,
                                  std::span<const CheckResult> results);

/// Puts a workload's launches into the stream.
void run(gpu::KernelCache& kernels, const Workload& workload, const Operands& operands,
         const Plan& plan, gpu::Stream& stream);

/// Launches a workload's grids behind a grid that lets the next one start at once and keeps
/// writing, unchanged, what the workload says is written just before; then behind themselves; and
/// waits. What they read or write too early is what the emulator finds. Does nothing on
/// architectures whose grids do not overlap. For emulated devices.
void run_overlapping(gpu::KernelCache& kernels, const Workload& workload, const Operands& operands,
                     const Plan& plan, gpu::Stream& stream);

/// What the workload's smoke run gives, if it has one.
[[nodiscard]] std::optional<SmokeFigure> run_smoke(gpu::KernelCache& kernels,
                                                   const Workload& workload, const Plan& plan,
                                                   gpu::Stream& stream);

/// Runs a workload's launch once on poisoned outputs and judges it. Used before timing as well.
[[nodiscard]] Verdict run_and_judge(gpu::KernelCache& kernels, const Workload& workload,
                                    Placement& placement, const Plan& plan,
                                    std::span<TileValues> tiles, const Tolerance& tolerance,
                                    gpu::Stream& stream);

}  // namespace fovea::lab
