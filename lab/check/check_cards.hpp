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

/// Result of a run on uniform inputs, and the expected result.
struct SmokeFigure {
  double sum = 0.0;  // sum of the first `count` outputs
  double expected = 0.0;
  std::int64_t count = 0;
  std::vector<double> first{};  // the first four outputs

  /// Returns why the result is wrong; empty if it is correct.
  [[nodiscard]] std::string fault() const;
};

/// Outputs of a case that was run with a plan.
struct CaseOutputs {
  const Workload& workload;
  std::span<const gpu::Launch> launches;
  std::span<const std::vector<std::byte>> outputs;  // the output, and its row scales if it has any
};

struct CheckOptions {
  std::uint64_t seed = 1;
  /// Number of consecutive seeds, starting at `seed`. With seeds after the first, only the small
  /// cases, those with mutants and one of each card's larger cases (in rotation) are checked, and
  /// fewer tiles are compared.
  int seeds = 5;
  std::string only_case{};  // empty: all cases
  bool small = false;  // only cases that are fast enough for compute-sanitizer, without mutants
  int runs = 0;        // runs per plan, which must give identical bytes; 0: the default number
  /// Called before each run of a plan with the number of the run, from 0, and with 0 before its
  /// smoke run and before its run behind other grids; may be empty.
  std::function<void(int run)> before_run{};
  /// Returns whether a case with these kernels is also run behind grids that it may overlap with,
  /// on the emulator. If empty, no case is.
  std::function<bool(const std::vector<std::string_view>& kernels)> overlaps{};
  /// Inspects outputs that passed all other checks and returns what is wrong with them; may be
  /// empty.
  std::function<std::string(const CaseOutputs&)> inspect{};
};

/// Result of one check, of a case with a plan or of one of its mutants.
struct CheckResult {
  std::uint64_t seed = 0;
  std::string card;
  std::string case_name;
  std::string what;  // the plan, "mutant: skip bias", or empty
  std::string description{};
  Verdict verdict{};
  bool passed = false;
  std::string reason{};  // why it failed; for a rejected mutant, the comparison's message
  std::vector<std::string_view> kernels{};  // kernels that the case launched; empty for mutants
};

/// Returns whether this program has kernels of the card for the device. If it has, and the device's
/// architecture is not older than the card's first one, the card's cases must run on the device.
[[nodiscard]] bool carries_kernels(const Card& card, const gpu::DeviceInfo& device);

/// Numbers of checks with one seed.
struct SeedResult {
  std::uint64_t seed = 0;
  int checked = 0;
  int failed = 0;
};

/// Returns whether the case is checked with seed number `turn`, from 0. The case must belong to the
/// card or be named by the options.
[[nodiscard]] bool checks(const Card& card, const Case& card_case, const CheckOptions& options,
                          int turn);

/// Function that returns the plans to check instead of the workload's plans().
using PlansOf = std::function<std::vector<Plan>(const Workload&)>;

/// A workload with inputs drawn from one seed, and its expected values.
struct PreparedInputs {
  std::shared_ptr<const Workload> workload;
  std::vector<TileValues> values;
};
/// Throws fovea::Error if no kernel runs the case on the device.
[[nodiscard]] PreparedInputs prepare(const Case& card_case, std::uint64_t seed,
                                     const gpu::DeviceInfo& device);

/// Checks one case with the caller's kernel cache, which may hold other machine code for a kernel,
/// with each plan that `plans_of` returns, and also runs the mutants if the case has them. `report`
/// is called after each check.
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

/// Launches a workload's grids behind a grid that triggers its dependents immediately and keeps
/// rewriting the inputs that written_just_before() lists, without changing them. Then launches the
/// workload's grids a second time, behind the first ones, and waits. The emulator reports premature
/// reads and writes. Does nothing on architectures whose grids do not overlap. For emulated devices
/// only.
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
