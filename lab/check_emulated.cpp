// check on the emulator.
#include "lab/check_emulated.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "gpu/emulated/emu_device.hpp"

namespace fovea::lab {
namespace {

/// Of what is checked without being named.
constexpr double kMostFlops = 30e6;
constexpr double kMostBytes = 3e6;

std::vector<EmulatedJob> jobs_of(std::span<const Card* const> cards, const std::vector<Case>& made,
                         const EmulatedCheckOptions& options, const gpu::DeviceInfo& device) {
  std::vector<EmulatedJob> jobs;
  const auto add = [&](const Card& card, const Case& one) {
    const std::unique_ptr<Workload> workload = one.make(options.seed);
    if (!workload->can_run(device)) {
      jobs.push_back({&card, &one});
      return;
    }
    for (const Plan& plan : workload->plans(device)) {
      jobs.push_back({&card, &one, plan});
    }
  };
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (!options.only_case.empty()) {
      add(*cards[i], made[i]);
      continue;
    }
    for (const Case& one : cards[i]->cases) {
      if (one.check && is_quick_to_emulate(one)) {
        add(*cards[i], one);
      }
    }
  }
  return jobs;
}

std::vector<CheckResult> run_job(const EmulatedJob& job, const EmulatedCheckOptions& options) {
  const std::unique_ptr<gpu::Device> emulator =
      options.gpu != nullptr
          ? nullptr
          : gpu::open_emulated_device({.arch = options.arch, .seed = options.seed});
  gpu::KernelCache kernels(options.gpu != nullptr ? *options.gpu : *emulator);
  CheckOptions check{.seed = options.seed, .small = true, .runs = options.schedules};
  if (options.inspect) {
    check.inspect = [&](const Ran& ran) { return options.inspect(job, ran); };
  }
  std::vector<CheckResult> results;
  const PlansOf plans = [&](const Workload& /*workload*/) { return std::vector{*job.plan}; };
  try {
    check_case(kernels, *job.card, *job.one, check, job.plan ? plans : PlansOf{},
               [&](const CheckResult& result) { results.push_back(result); });
  } catch (const Error& error) {
    results.push_back({.seed = options.seed,
                       .card = job.card->name,
                       .case_name = job.one->name,
                       .what = job.plan ? to_string(*job.plan) : "",
                       .description = {},
                       .verdict = {},
                       .passed = false,
                       .reason = error.what(),
                       .kernels = {}});
  }
  return results;
}

}  // namespace

bool is_quick_to_emulate(const Case& one) {
  const std::unique_ptr<Workload> workload = one.make(1);
  return workload->flops() <= kMostFlops && static_cast<double>(workload->bytes()) <= kMostBytes;
}

int check_emulated(std::span<const Card* const> cards, const EmulatedCheckOptions& options,
                   const std::function<void(const CheckResult&)>& report) {
  std::vector<const Card*> with_kernels;
  std::vector<Case> made;  // of each card, the one that was asked for
  const gpu::DeviceInfo info = options.gpu != nullptr
                                   ? options.gpu->info()
                                   : gpu::open_emulated_device({.arch = options.arch})->info();
  for (const Card* const card : cards) {
    std::vector<Case> asked = cases_of(*card, options.only_case);
    if (carries_kernels(*card, info) && !asked.empty()) {
      with_kernels.push_back(card);
      made.push_back(std::move(asked.front()));
    }
  }
  const std::vector<EmulatedJob> jobs = jobs_of(with_kernels, made, options, info);
  if (jobs.empty()) {
    fail(
        "nothing was checked: this program has no kernels of these cards for {}, or none of their "
        "cases is small enough; --case names one",
        info.name);
  }
  std::mutex mutex;
  std::map<std::size_t, std::vector<CheckResult>> done;  // and not reported: an earlier one is not
  std::size_t next = 0;
  int failed = 0;
  const int threads = options.gpu != nullptr ? 1 : available_threads();
  ThreadPool pool(std::min(threads, static_cast<int>(jobs.size())));
  pool.parallel_for(jobs.size(), [&](std::size_t index, int /*worker*/) {
    std::vector<CheckResult> results = run_job(jobs[index], options);
    const std::lock_guard lock(mutex);
    done.emplace(index, std::move(results));
    for (; !done.empty() && done.begin()->first == next; ++next) {
      const auto of_job = done.extract(done.begin());
      for (const CheckResult& result : of_job.mapped()) {
        failed += result.passed ? 0 : 1;
        report(result);
      }
    }
  });
  return failed;
}

}  // namespace fovea::lab
