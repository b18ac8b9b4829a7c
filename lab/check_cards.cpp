// check: every case under every plan, then the mutants that the gate must reject.
#include "lab/check_cards.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"

namespace fovea::lab {
namespace {

constexpr std::size_t kMostTiles = 48;
constexpr int kRuns = 3;  // outputs that differ between runs on the same inputs are a race

class Checker {
 public:
  Checker(gpu::Device& device, const CheckOptions& options,
          const std::function<void(const CheckResult&)>& report)
      : device_(device),
        kernels_(device),
        stream_(device.make_stream()),
        options_(options),
        report_(report) {}

  void run(const Card& card, const Case& one) {
    const std::unique_ptr<Workload> workload = one.make(options_.seed);
    if (const std::string why = workload->can_run(device_.info()); !why.empty()) {
      if (device_.info().arch() >= card.arch && carries_kernels(card, device_.info())) {
        add(card, one, *workload, "", Verdict{}, why);
      }
      return;
    }
    Placement placement(device_, *workload, *stream_);
    const OutputSpec output = workload->output();
    const std::vector<Tile> tiles =
        sample_tiles(output.rows, output.columns, kMostTiles, options_.seed);
    std::vector<TileValues> values = expectations(*workload, tiles);
    std::vector<std::string> plans = workload->plans(device_.info());
    plans.insert(plans.begin(), "");
    for (const std::string& plan : plans) {
      const Verdict verdict =
          run_and_judge(kernels_, *workload, placement, plan, values, card.tolerance, *stream_);
      std::string reason = verdict.reason;
      if (reason.empty()) {
        reason = differing_runs(*workload, placement, plan);
      }
      add(card, one, *workload, plan, verdict, reason);
    }
    if (one.mutants && !options_.small) {
      run_mutants(card, one, *workload, values);
      run_poisoned(card, one, *workload, values);
    }
  }

  [[nodiscard]] int checked() const { return checked_; }
  [[nodiscard]] int failed() const { return failed_; }

 private:
  std::string differing_runs(const Workload& workload, Placement& placement,
                             const std::string& plan) {
    const std::uint64_t first = placement.fingerprint(*stream_);
    for (int run = 1; run < kRuns; ++run) {
      placement.reset(*stream_, kOtherPoison);
      lab::run(kernels_, workload, placement.operands(), plan, *stream_);
      if (placement.fingerprint(*stream_) != first) {
        return "the same inputs gave other bytes when it ran again: a race, or never written";
      }
    }
    return {};
  }

  void run_mutants(const Card& card, const Case& one, const Workload& workload,
                   std::span<const TileValues> right) {
    for (auto& [name, values] : spoiled(right)) {
      add_mutant(card, one, workload, name, values);
    }
    for (const Mutant& mutant : workload.mutants()) {
      std::vector<TileValues> values(right.begin(), right.end());
      if (mutant.launchable && mutant.workload->can_run(device_.info()).empty()) {
        Placement placement(device_, *mutant.workload, *stream_);
        lab::run(kernels_, *mutant.workload, placement.operands(), "", *stream_);
        placement.read(values, *stream_);
      } else {
        fill_emulated(*mutant.workload, values);
      }
      add_mutant(card, one, workload, mutant.name, values);
    }
  }

  void run_poisoned(const Card& card, const Case& one, const Workload& workload,
                    std::span<const TileValues> right) {
    const Poisoned poisoned = workload.poisoned();
    if (!poisoned.workload) {
      return;
    }
    Placement placement(device_, *poisoned.workload, *stream_);
    lab::run(kernels_, *poisoned.workload, placement.operands(), "", *stream_);
    std::vector<TileValues> values(right.begin(), right.end());
    placement.read(values, *stream_);
    add(card, one, workload, fmt::format("NaN in row {}", poisoned.row), Verdict{},
        wrong_nan(values, poisoned.row));
  }

  void add_mutant(const Card& card, const Case& one, const Workload& workload,
                  const std::string& name, std::span<const TileValues> values) {
    const Verdict verdict = judge(values, card.tolerance);
    add(card, one, workload, "mutant: " + name, verdict,
        verdict.passes() ? "the gate let it pass" : "", verdict.reason);
  }

  /// `reason`: why it did not pass.
  void add(const Card& card, const Case& one, const Workload& workload, const std::string& what,
           const Verdict& verdict, const std::string& reason, const std::string& note = {}) {
    CheckResult result;
    result.card = card.name;
    result.case_name = one.name;
    result.what = what;
    result.description = workload.describe();
    result.verdict = verdict;
    result.passed = reason.empty();
    result.reason = reason.empty() ? note : reason;
    ++checked_;
    failed_ += result.passed ? 0 : 1;
    report_(result);
  }

  gpu::Device& device_;
  gpu::KernelCache kernels_;
  std::unique_ptr<gpu::Stream> stream_;
  const CheckOptions& options_;
  const std::function<void(const CheckResult&)>& report_;
  int checked_ = 0;
  int failed_ = 0;
};

}  // namespace

bool carries_kernels(const Card& card, const gpu::DeviceInfo& device) {
  return std::ranges::any_of(gpu::kernel_images(), [&](const gpu::KernelImage& image) {
    return gpu::runs_on(image.arch, device.arch()) &&
           std::ranges::any_of(
               card.kernels, [&](const KernelLimits& limits) { return limits.covers(image.name); });
  });
}

void run(gpu::KernelCache& kernels, const Workload& workload, const Operands& operands,
         std::string_view plan, gpu::Stream& stream) {
  for (const gpu::Launch& launch : workload.launches(kernels.device(), operands, plan)) {
    kernels.run(launch, stream);
  }
}

void run_case(gpu::Device& device, const Card& card, const std::string& case_name,
              const std::string& level, std::uint64_t seed, int times) {
  const Case& found = find_case(card, case_name);
  gpu::KernelCache kernels(device);
  const std::unique_ptr<gpu::Stream> stream = device.make_stream();
  const std::unique_ptr<Workload> workload = found.make(seed);
  Placement placement(device, *workload, *stream);
  const std::string plan = level.empty() ? "" : workload->plan_of_level(device.info(), level);
  for (int i = 0; i < times; ++i) {
    run(kernels, *workload, placement.operands(), plan, *stream);
  }
  device.synchronize();
}

Verdict run_and_judge(gpu::KernelCache& kernels, const Workload& workload, Placement& placement,
                      std::string_view plan, std::span<TileValues> tiles,
                      const Tolerance& tolerance, gpu::Stream& stream) {
  placement.reset(stream);
  run(kernels, workload, placement.operands(), plan, stream);
  placement.read(tiles, stream);
  Verdict verdict = judge(tiles, tolerance);
  if (const std::string fault = placement.fault(stream); !fault.empty()) {
    verdict.reason = fault;
  }
  return verdict;
}

std::vector<std::pair<std::string, std::vector<TileValues>>> spoiled(
    std::span<const TileValues> right) {
  std::vector<std::pair<std::string, std::vector<TileValues>>> all;
  for (const auto& [name, value] :
       {std::pair{"a tile is zero", 0.0}, std::pair{"a tile is not written", std::nan("")}}) {
    std::vector<TileValues> values(right.begin(), right.end());
    std::ranges::fill(values[values.size() / 2].actual, value);
    all.emplace_back(name, std::move(values));
  }
  return all;
}

int check(gpu::Device& device, std::span<const Card* const> cards, const CheckOptions& options,
          const std::function<void(const CheckResult&)>& report) {
  Checker checker(device, options, report);
  bool any = false;
  for (const Card* const card : cards) {
    for (const Case& one : card->cases) {
      const bool wanted = options.only_case.empty() ? one.check && (one.small || !options.small)
                                                    : one.name == options.only_case;
      if (wanted) {
        any = true;
        checker.run(*card, one);
      }
    }
  }
  if (!any) {
    fail("no case to check{}", options.only_case.empty() ? "" : ": " + options.only_case);
  }
  if (checker.checked() == 0) {
    fail("nothing was checked: this program has no kernels of these cards for {} (sm_{})",
         device.info().name, device.info().arch());
  }
  return checker.failed();
}

}  // namespace fovea::lab
