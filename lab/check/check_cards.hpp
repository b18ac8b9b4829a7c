// check: runs cards on a device and compares their outputs with exact results.
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

/// Result of a run on uniform inputs, which is known without computing it.
struct SmokeFigure {
  double sum = 0.0;  // sum of the first `count` outputs
  double expected = 0.0;
  std::int64_t count = 0;
  std::vector<double> first{};  // the first four outputs

  /// Returns why it is wrong; empty if it is right.
  [[nodiscard]] std::string fault() const;
};

/// Outputs of a case under a plan.
struct Ran {
  const Workload& workload;
  std::span<const gpu::Launch> launches;
  std::span<const std::vector<std::byte>>
      outputs;  // the output, and the rows' scales if it has any
};

struct CheckOptions {
  std::uint64_t seed = 1;
  /// Number of consecutive seeds, starting at `seed`. Seeds after the first check the small cases,
  /// those with mutants, and one of each card's larger cases in rotation, with fewer tiles
  /// compared.
  int seeds = 5;
  std::string only_case{};  // empty: all
  bool small = false;       // only cases that are quick under compute-sanitizer; no mutants
  int runs = 0;             // runs per plan, which must give identical bytes; 0: the default number
  /// Called before each run of a plan with its number, from 0, and with 0 before its smoke run and
  /// before it runs behind other grids; may be empty.
  std::function<void(int run)> before_run{};
  /// Returns whether a case with these kernels is also run behind grids that it may overlap with,
  /// on the emulator; empty: none is.
  std::function<bool(const std::vector<std::string_view>& kernels)> overlaps{};
  /// Inspects outputs that passed so far and returns what is wrong with them; may be empty.
  std::function<std::string(const Ran&)> inspect{};
};

/// Result of one check: a case under a plan, or one of its mutants.
struct CheckResult {
  std::uint64_t seed = 0;
  std::string card;
  std::string case_name;
  std::string what;  // the plan, "mutant: skip bias", or empty
  std::string description{};
  Verdict verdict{};
  bool passed = false;
  std::string reason{};  // why it failed; for a rejected mutant, the comparison's message
  std::vector<std::string_view> kernels{};  // kernels that it launched; empty for mutants
};

/// Returns whether this program has kernels of the card for the device. If so, and from the card's
/// first architecture on, its cases must run there.
[[nodiscard]] bool carries_kernels(const Card& card, const gpu::DeviceInfo& device);

/// All results for one seed.
struct SeedResult {
  std::uint64_t seed = 0;
  int checked = 0;
  int failed = 0;
};

/// Returns whether seed number `turn`, from 0, checks this case, which belongs to the card unless
/// the options name another.
[[nodiscard]] bool checks(const Card& card, const Case& card_case, const CheckOptions& options,
                          int turn);

/// Plans that are checked instead of a workload's own.
using PlansOf = std::function<std::vector<Plan>(const Workload&)>;

/// A case's inputs, and the expected values for its first seed.
struct PreparedInputs {
  std::shared_ptr<const Workload> workload;
  std::vector<TileValues> values;
};
/// Throws fovea::Error if no kernel runs the case on the device.
[[nodiscard]] PreparedInputs prepare(const Case& card_case, std::uint64_t seed,
                                     const gpu::DeviceInfo& device);

/// Checks one case with the caller's kernel cache, which may hold other machine code for a kernel,
/// under the plans of `plans_of`; each plan also on mutants if the case has them. `report` is
/// called after each check.
void check_case(gpu::KernelCache& kernels, const Card& card, const Case& card_case,
                const CheckOptions& options, const PlansOf& plans_of,
                const std::function<void(const CheckResult&)>& report);
/// Checks one case on inputs that are already prepared.
void check_case(gpu::KernelCache& kernels, const Card& card, const Case& card_case,
                const PreparedInputs& inputs, const CheckOptions& options, const PlansOf& plans_of,
                const std::function<void(const CheckResult&)>& report);

/// Runs all checks that `options` asks for on these cards, skipping cards without kernels for the
/// device; `report` is called after each check, and `seed_done`, which may be empty, after each
/// seed. Returns the number of failures. Throws fovea::Error if there was nothing to check.
int check(gpu::Device& device, std::span<const Card* const> cards, const CheckOptions& options,
          const std::function<void(const CheckResult&)>& report,
          const std::function<void(const SeedResult&)>& seed_done = {});

/// Returns the results as JSON: the device, and card, case, plan and kernels for each.
[[nodiscard]] std::string to_json(const gpu::DeviceInfo& device,
                                  std::span<const CheckResult> results);

/// Enqueues a workload's launches into the stream.
void run(gpu::KernelCache& kernels, const Workload& workload, const Operands& operands,
         const Plan& plan, gpu::Stream& stream);

/// Launches a workload's grids behind a grid that triggers its dependents at once and keeps
/// rewriting, unchanged, the inputs that the workload lists as written just before; then behind
/// themselves; and waits. The emulator reports what they read or write too early. Does nothing on
/// architectures whose grids do not overlap. For emulated devices only.
void run_overlapping(gpu::KernelCache& kernels, const Workload& workload, const Operands& operands,
                     const Plan& plan, gpu::Stream& stream);

/// Returns the result of the workload's smoke run, if it has one.
[[nodiscard]] std::optional<SmokeFigure> run_smoke(gpu::KernelCache& kernels,
                                                   const Workload& workload, const Plan& plan,
                                                   gpu::Stream& stream);

/// Runs a workload's launches once on poisoned outputs and compares the result with the expected
/// values. Also used before timing.
[[nodiscard]] Verdict run_and_judge(gpu::KernelCache& kernels, const Workload& workload,
                                    Placement& placement, const Plan& plan,
                                    std::span<TileValues> tiles, const Tolerance& tolerance,
                                    gpu::Stream& stream);

}  // namespace fovea::lab
