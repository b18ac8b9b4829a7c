// Implements `check`: runs each case with each plan, then the mutants that the comparison must
// reject.
#include "lab/check/check_cards.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"

namespace fovea::lab {
namespace {

/// The numbers of tiles and runs with which a case is checked.
struct Effort {
  std::size_t max_tiles;
  int runs;  // runs on the same inputs, whose outputs must not differ
};
constexpr Effort kFirstSeed{48, 3};
constexpr Effort kLaterSeeds{12, 2};  // for cases without mutants

std::vector<std::string_view> kernel_names(std::span<const gpu::Launch> launches) {
  std::vector<std::string_view> names;
  for (const gpu::Launch& launch : launches) {
    names.push_back(gpu::info_of(launch.kernel).name);
  }
  return names;
}

/// The subject of a check: a case with a plan.
struct CheckSubject {
  const Card& card;
  const Case& card_case;
  const Workload& workload;
};

class Checker {
 public:
  Checker(gpu::KernelCache& kernels, const CheckOptions& options,
          const std::function<void(const CheckResult&)>& report, PlansOf plans_of = {})
      : device_(kernels.device()),
        kernels_(kernels),
        stream_(kernels.device().make_stream()),
        options_(options),
        report_(report),
        plans_of_(std::move(plans_of)) {}

  /// Starts the checks with seed number `turn`.
  void begin(int turn) {
    seed_result_ = {.seed = options_.seed + static_cast<std::uint64_t>(turn)};
    effort_ = turn == 0 ? kFirstSeed : kLaterSeeds;
    effort_.runs = options_.runs > 0 ? options_.runs : effort_.runs;
  }

  void run(const Card& card, const Case& card_case) {
    const std::unique_ptr<Workload> workload = card_case.make(seed_result_.seed);
    if (const Support support = workload->can_run(device_.info()); !support) {
      if (device_.info().arch() >= card.first_arch && carries_kernels(card, device_.info())) {
        add({card, card_case, *workload}, "", Verdict{}, support.why);
      }
      return;
    }
    const std::size_t tiles = card_case.mutants ? kFirstSeed.max_tiles : effort_.max_tiles;
    run({card, card_case, *workload}, expectations(*workload, tiles, seed_result_.seed));
  }

  void run(const CheckSubject& subject, std::vector<TileValues> values) {
    const Workload& workload = subject.workload;
    Placement placement(device_, workload, *stream_);
    for (const Plan& plan : plans_of(workload)) {
      begin_run(0);
      const Verdict verdict = run_and_judge(kernels_, workload, placement, plan, values,
                                            subject.card.tolerance, *stream_);
      const std::vector<gpu::Launch> launches =
          workload.launches(device_, placement.operands(), plan);
      std::string reason = verdict.reason;
      if (reason.empty() && options_.inspect) {
        const std::vector<std::vector<std::byte>> outputs = placement.outputs(*stream_);
        reason = options_.inspect({workload, launches, outputs});
      }
      if (reason.empty()) {
        reason = differing_runs(workload, placement, plan);
      }
      begin_run(0);
      if (const std::optional<SmokeFigure> smoke = run_smoke(kernels_, workload, plan, *stream_);
          reason.empty() && smoke.has_value()) {
        reason = smoke->fault();
      }
      begin_run(0);
      if (reason.empty() && options_.overlaps && options_.overlaps(kernel_names(launches))) {
        run_overlapping(kernels_, workload, placement.operands(), plan, *stream_);
      }
      add(subject, lab::to_string(plan), verdict, reason, {}, kernel_names(launches));
    }
    if (subject.card_case.mutants && (!options_.small || subject.card.emulates_mutants)) {
      run_mutants(subject, values);
      run_poisoned(subject, values);
    }
  }

  [[nodiscard]] const SeedResult& seed_result() const { return seed_result_; }

 private:
  [[nodiscard]] std::vector<Plan> plans_of(const Workload& workload) const {
    return plans_of_ ? plans_of_(workload) : workload.plans(device_.info());
  }

  /// Returns the first requested plan that can run the workload, if any.
  [[nodiscard]] std::optional<Plan> first_plan(const Workload& workload) const {
    if (!workload.can_run(device_.info())) {
      return std::nullopt;
    }
    const std::vector<Plan> plans = plans_of_ ? plans_of_(workload) : std::vector{Plan{}};
    return plans.empty() ? std::nullopt : std::optional(plans.front());
  }

  void begin_run(int run) {
    if (options_.before_run) {
      options_.before_run(run);
    }
  }

  std::string differing_runs(const Workload& workload, Placement& placement, const Plan& plan) {
    const std::uint64_t first = placement.fingerprint(*stream_);
    for (int run = 1; run < effort_.runs; ++run) {
      begin_run(run);
      placement.reset(*stream_, kOtherPoison);
      lab::run(kernels_, workload, placement.operands(), plan, *stream_);
      if (placement.fingerprint(*stream_) != first) {
        return "a second run on the same inputs gave different outputs: a race or an unwritten "
               "element";
      }
    }
    return {};
  }

  void run_mutants(const CheckSubject& subject, std::span<const TileValues> correct_values) {
    for (auto& [name, values] : spoiled_outputs(correct_values)) {
      add_mutant(subject, name, values);
    }
    for (const Mutant& mutant : subject.workload.mutants()) {
      std::vector<TileValues> values(correct_values.begin(), correct_values.end());
      const std::optional<Plan> plan = first_plan(*mutant.workload);
      if (mutant.launchable && plan.has_value()) {
        Placement placement(device_, *mutant.workload, *stream_);
        lab::run(kernels_, *mutant.workload, placement.operands(), *plan, *stream_);
        placement.read(values, *stream_);
      } else {
        fill_emulated(*mutant.workload, values);
      }
      add_mutant(subject, mutant.name, values);
    }
  }

  void run_poisoned(const CheckSubject& subject, std::span<const TileValues> correct_values) {
    const Poisoned poisoned = subject.workload.poisoned();
    if (!poisoned.workload) {
      return;
    }
    const std::optional<Plan> plan = first_plan(*poisoned.workload);
    if (!plan.has_value()) {
      add(subject, "NaN", Verdict{}, "no plan can run the case with a NaN in its inputs");
      return;
    }
    Placement placement(device_, *poisoned.workload, *stream_);
    lab::run(kernels_, *poisoned.workload, placement.operands(), *plan, *stream_);
    std::vector<TileValues> values(correct_values.begin(), correct_values.end());
    placement.read(values, *stream_);
    add(subject, fmt::format("NaN in row {}", poisoned.row), Verdict{},
        wrong_nan(values, poisoned.row));
  }

  void add_mutant(const CheckSubject& subject, const std::string& name,
                  std::span<const TileValues> values) {
    const Verdict verdict = judge(values, subject.card.tolerance);
    add(subject, "mutant: " + name, verdict,
        verdict.passes() ? "the check did not detect the mutant" : "", verdict.reason);
  }

  /// Adds a result; `reason` says why the check failed, or is empty.
  void add(const CheckSubject& subject, const std::string& what, const Verdict& verdict,
           const std::string& reason, const std::string& note = {},
           std::vector<std::string_view> kernels = {}) {
    const CheckResult result{.seed = seed_result_.seed,
                             .card = subject.card.name,
                             .case_name = subject.card_case.name,
                             .what = what,
                             .description = subject.workload.describe(),
                             .verdict = verdict,
                             .passed = reason.empty(),
                             .reason = reason.empty() ? note : reason,
                             .kernels = std::move(kernels)};
    ++seed_result_.checked;
    seed_result_.failed += result.passed ? 0 : 1;
    report_(result);
  }

  gpu::Device& device_;
  gpu::KernelCache& kernels_;
  std::unique_ptr<gpu::Stream> stream_;
  const CheckOptions& options_;
  const std::function<void(const CheckResult&)>& report_;
  PlansOf plans_of_;
  SeedResult seed_result_;
  Effort effort_ = kFirstSeed;
};

}  // namespace

bool carries_kernels(const Card& card, const gpu::DeviceInfo& device) {
  return std::ranges::any_of(card.kernels, [&](const KernelLimits& limits) {
    return std::ranges::any_of(gpu::kernels(), [&](const gpu::KernelInfo& kernel) {
      return limits.covers(kernel.name) &&
             gpu::find_kernel_image(kernel.name, device.arch()) != nullptr;
    });
  });
}

void run(gpu::KernelCache& kernels, const Workload& workload, const Operands& operands,
         const Plan& plan, gpu::Stream& stream) {
  for (const gpu::Launch& launch : workload.launches(kernels.device(), operands, plan)) {
    kernels.run(launch, stream);
  }
}

std::string SmokeFigure::fault() const {
  const double each = expected / static_cast<double>(count);
  if (sum == expected && std::ranges::all_of(first, [&](double value) { return value == each; })) {
    return {};
  }
  return fmt::format(
      "wrong result for uniform inputs: the first {} outputs add up to {}, not {}, and the first "
      "ones are {}, not {}",
      count, sum, expected, fmt::join(first, ", "), each);
}

std::optional<SmokeFigure> run_smoke(gpu::KernelCache& kernels, const Workload& workload,
                                     const Plan& plan, gpu::Stream& stream) {
  const Smoke smoke = workload.smoke();
  if (smoke.workload == nullptr) {
    return std::nullopt;
  }
  Placement placement(kernels.device(), *smoke.workload, stream);
  run(kernels, *smoke.workload, placement.operands(), plan, stream);
  const std::int64_t columns = smoke.workload->output().columns;
  TileValues values;
  values.tile = {0, 0, (smoke.count + columns - 1) / columns, columns};
  placement.read(std::span(&values, 1), stream);
  values.actual.resize(static_cast<std::size_t>(smoke.count));
  return SmokeFigure{.sum = std::accumulate(values.actual.begin(), values.actual.end(), 0.0),
                     .expected = smoke.expected_sum,
                     .count = smoke.count,
                     .first = {values.actual.begin(), values.actual.begin() + 4}};
}

Verdict run_and_judge(gpu::KernelCache& kernels, const Workload& workload, Placement& placement,
                      const Plan& plan, std::span<TileValues> tiles, const Tolerance& tolerance,
                      gpu::Stream& stream) {
  placement.reset(stream);
  run(kernels, workload, placement.operands(), plan, stream);
  placement.read(tiles, stream);
  Verdict verdict = judge(tiles, tolerance);
  if (const std::string fault = placement.fault(stream); !fault.empty()) {
    verdict.reason = fault;
  }
  return verdict;
}

bool checks(const Card& card, const Case& card_case, const CheckOptions& options, int turn) {
  if (!options.only_case.empty()) {
    return card_case.name == options.only_case;
  }
  if (options.small || turn == 0) {
    return card_case.check && (card_case.small || !options.small);
  }
  const auto large = [](const Case& each) { return each.check && !each.small && !each.mutants; };
  if (!large(card_case)) {
    return card_case.check;
  }
  const auto earlier_cases = std::count_if(card.cases.data(), &card_case, large);
  return (turn - 1) % std::ranges::count_if(card.cases, large) == earlier_cases;
}

void check_case(gpu::KernelCache& kernels, const Card& card, const Case& card_case,
                const CheckOptions& options, const PlansOf& plans_of,
                const std::function<void(const CheckResult&)>& report) {
  Checker checker(kernels, options, report, plans_of);
  checker.begin(0);
  checker.run(card, card_case);
}

PreparedInputs prepare(const Case& card_case, std::uint64_t seed, const gpu::DeviceInfo& device) {
  std::shared_ptr<const Workload> workload = card_case.make(seed);
  if (const Support support = workload->can_run(device); !support) {
    fail("{}: {}", card_case.name, support.why);
  }
  std::vector<TileValues> values = expectations(*workload, kFirstSeed.max_tiles, seed);
  return {.workload = std::move(workload), .values = std::move(values)};
}

void check_case(gpu::KernelCache& kernels, const Card& card, const Case& card_case,
                const PreparedInputs& inputs, const CheckOptions& options, const PlansOf& plans_of,
                const std::function<void(const CheckResult&)>& report) {
  Checker checker(kernels, options, report, plans_of);
  checker.begin(0);
  checker.run({card, card_case, *inputs.workload}, inputs.values);
}

int check(gpu::Device& device, std::span<const Card* const> cards, const CheckOptions& options,
          const std::function<void(const CheckResult&)>& report,
          const std::function<void(const SeedResult&)>& seed_done) {
  gpu::KernelCache kernels(device);
  Checker checker(kernels, options, report);
  int failed = 0;
  for (int turn = 0; turn < options.seeds; ++turn) {
    checker.begin(turn);
    bool any = false;
    for (const Card* const card : cards) {
      for (const Case& card_case : card->cases) {
        if (checks(*card, card_case, options, turn)) {
          any = true;
          checker.run(*card, card_case);
        }
      }
    }
    if (!any) {
      fail("no case to check{}", options.only_case.empty() ? "" : ": " + options.only_case);
    }
    if (checker.seed_result().checked == 0) {
      fail("nothing was checked: this program has no kernels of these cards for {} (sm_{})",
           device.info().name, device.info().arch());
    }
    failed += checker.seed_result().failed;
    if (seed_done) {
      seed_done(checker.seed_result());
    }
  }
  return failed;
}

std::string to_json(const gpu::DeviceInfo& device, std::span<const CheckResult> results) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const CheckResult& result : results) {
    checks.push_back({{"card", result.card},
                      {"case", result.case_name},
                      {"plan", result.what},
                      {"kernels", result.kernels},
                      {"seed", result.seed},
                      {"max_abs", result.verdict.worst},
                      {"max_rel", result.verdict.worst_relative},
                      {"passed", result.passed},
                      {"reason", result.reason}});
  }
  return nlohmann::ordered_json{
      {"gpu", device.name}, {"arch", device.arch()}, {"checks", std::move(checks)}}
      .dump(1);
}

}  // namespace fovea::lab
