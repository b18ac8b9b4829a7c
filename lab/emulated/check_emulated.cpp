// Runs `check` on the emulator.
#include "lab/emulated/check_emulated.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "gpu/emulated/emu_orders.hpp"
#include "lab/check/placement.hpp"
#include "lab/emulated/replay_case.hpp"
#include "lab/system/in_order.hpp"

namespace fovea::lab {
namespace {

/// Maximal work of cases that are checked unless the user names others.
constexpr double kMaxFlops = 30e6;
constexpr double kMaxBytes = 3e6;

/// A case's inputs, shared by all its plans and drawn when the first of them runs.
class SharedInputs {
 public:
  SharedInputs(const Case& card_case, std::uint64_t seed) : card_case_(card_case), seed_(seed) {}

  const PreparedInputs& get(const gpu::DeviceInfo& device) {
    std::call_once(once_, [&] { inputs_ = prepare(card_case_, seed_, device); });
    return inputs_;
  }

 private:
  const Case& card_case_;
  std::uint64_t seed_;
  std::once_flag once_;
  PreparedInputs inputs_;
};

struct Job : EmulatedJob {
  std::shared_ptr<SharedInputs> inputs;
};

/// Returns the jobs for each card: its quick cases and its element of `larger`, or only the latter
/// if the user named a case.
std::vector<Job> make_jobs(std::span<const Card* const> cards,
                           const std::vector<std::optional<Case>>& larger,
                           const EmulatedCheckOptions& options, const gpu::DeviceInfo& device) {
  std::vector<Job> jobs;
  const auto add = [&](const Card& card, const Case& card_case) {
    const std::unique_ptr<Workload> workload = card_case.make(options.seed);
    if (!workload->can_run(device)) {
      jobs.push_back({{&card, &card_case, std::nullopt}, nullptr});
      return;
    }
    const auto inputs = std::make_shared<SharedInputs>(card_case, options.seed);
    for (const Plan& plan : workload->plans(device)) {
      jobs.push_back({{&card, &card_case, plan}, inputs});
    }
  };
  for (std::size_t i = 0; i < cards.size(); ++i) {
    for (const Case& card_case : cards[i]->cases) {
      if (options.only_case.empty() && card_case.check && is_quick_to_emulate(card_case)) {
        add(*cards[i], card_case);
      }
    }
    if (const auto& chosen = larger[i]) {
      add(*cards[i], *chosen);
    }
  }
  return jobs;
}

/// Keeps, for each card and sequence of kernels, only the job with the most work, and all jobs that
/// cannot run. Uses an emulated device only to plan the launches.
void keep_largest(std::vector<Job>& jobs, const EmulatedCheckOptions& options) {
  struct Largest {
    const Job* job = nullptr;
    double flops = 0;
  };
  std::map<std::pair<const Card*, std::vector<gpu::KernelId>>, Largest> largest;
  const std::unique_ptr<gpu::Device> device = gpu::open_emulated_device({.arch = options.arch});
  const std::unique_ptr<gpu::Stream> stream = device->make_stream();
  for (const Job& job : jobs) {
    if (!job.plan) {
      continue;
    }
    const std::unique_ptr<Workload> workload = job.card_case->make(options.seed);
    const Placement placement(*device, *workload, *stream);
    std::vector<gpu::KernelId> kernels;
    for (const gpu::Launch& launch : workload->launches(*device, placement.operands(), *job.plan)) {
      kernels.push_back(launch.kernel);
    }
    Largest& candidate = largest[{job.card, kernels}];
    if (candidate.job == nullptr || workload->flops() > candidate.flops) {
      candidate = {.job = &job, .flops = workload->flops()};
    }
  }
  std::set<const Job*> largest_jobs;
  for (const auto& [kernels, candidate] : largest) {
    largest_jobs.insert(candidate.job);
  }
  std::vector<Job> remaining_jobs;
  for (Job& job : jobs) {
    if (!job.plan || largest_jobs.contains(&job)) {
      remaining_jobs.push_back(std::move(job));
    }
  }
  jobs = std::move(remaining_jobs);
}

/// Runs jobs one after the other on one device, on which each kernel is loaded once.
class Runner {
 public:
  explicit Runner(const EmulatedCheckOptions& options) : options_(options) {}

  std::vector<CheckResult> run(const Job& job) {
    start();
    std::vector<CheckResult> results;
    const auto report = [&](const CheckResult& result) { results.push_back(result); };
    CheckOptions check{.seed = options_.seed, .small = true, .runs = options_.schedules};
    int schedule = 0;
    bool overlapping = false;
    if (emulator_) {
      // Once per sequence of kernels suffices: the inputs that they wait for do not depend on the
      // problem.
      check.overlaps = [&](const std::vector<std::string_view>& kernels) {
        overlapping = overlapped_.insert(kernels).second;
        return overlapping;
      };
      check.before_run = [&](int run) {
        schedule = run;
        gpu::begin_order(*emulator_, order_seed(options_.seed, run));
      };
    }
    if (options_.inspect) {
      check.inspect = [&](const CaseOutputs& ran) { return options_.inspect(job, ran); };
    }
    try {
      if (job.plan) {
        check_case(
            *kernels_, *job.card, *job.card_case, job.inputs->get(kernels_->device().info()), check,
            [&](const Workload& /*workload*/) { return std::vector{*job.plan}; }, report);
      } else {
        check_case(*kernels_, *job.card, *job.card_case, check, {}, report);
      }
    } catch (const Error& error) {
      results.push_back({.seed = options_.seed,
                         .card = job.card->name,
                         .case_name = job.card_case->name,
                         .what = job.plan ? to_string(*job.plan) : "",
                         .reason = error.what()});
      kernels_.reset();
      emulator_.reset();
    }
    if (job.plan && options_.gpu == nullptr && !results.empty() && !results.back().passed) {
      results.back().reason += "; again: fovea kernel emulate " +
                               replay_arguments(job.card->name, {.arch = options_.arch,
                                                                 .case_name = job.card_case->name,
                                                                 .plan = to_string(*job.plan),
                                                                 .seed = options_.seed,
                                                                 .schedule = schedule,
                                                                 .overlapping = overlapping});
    }
    return results;
  }

 private:
  void start() {
    if (kernels_) {
      return;
    }
    if (options_.gpu == nullptr) {
      emulator_ = gpu::open_emulated_device({.arch = options_.arch});
    }
    kernels_ = std::make_unique<gpu::KernelCache>(emulator_ ? *emulator_ : *options_.gpu);
  }

  const EmulatedCheckOptions& options_;
  std::unique_ptr<gpu::Device> emulator_;
  std::unique_ptr<gpu::KernelCache> kernels_;
  std::set<std::vector<std::string_view>> overlapped_;
};

}  // namespace

std::uint64_t order_seed(std::uint64_t seed, int number) {
  constexpr std::uint64_t kSeedStride = 1'000'003;  // larger than any number of schedules
  return seed * kSeedStride + static_cast<std::uint64_t>(number);
}

bool is_quick_to_emulate(const Case& card_case) {
  const std::unique_ptr<Workload> workload = card_case.make(1);
  return workload->flops() <= kMaxFlops && static_cast<double>(workload->bytes()) <= kMaxBytes;
}

int check_emulated(std::span<const Card* const> cards, const EmulatedCheckOptions& options,
                   const std::function<void(const CheckResult&)>& report) {
  std::vector<const Card*> with_kernels;
  // The requested case of each card, or its first one that fills pipelines more than once.
  std::vector<std::optional<Case>> larger;
  const gpu::DeviceInfo info = options.gpu != nullptr
                                   ? options.gpu->info()
                                   : gpu::open_emulated_device({.arch = options.arch})->info();
  for (const Card* const card : cards) {
    std::vector<Case> requested_cases = select_cases(*card, options.only_case);
    if (carries_kernels(*card, info) && !requested_cases.empty()) {
      with_kernels.push_back(card);
      if (!options.only_case.empty()) {
        larger.emplace_back(std::move(requested_cases.front()));
      } else if (!card->emulated.empty()) {
        larger.emplace_back(find_case(*card, card->emulated.front()));
      } else {
        larger.emplace_back();
      }
    }
  }
  std::vector<Job> jobs = make_jobs(with_kernels, larger, options, info);
  if (options.largest_only) {
    keep_largest(jobs, options);
  }
  if (jobs.empty()) {
    fail(
        "nothing was checked: this program has no kernels of these cards for {}, or none of their "
        "cases is small enough; choose one with --case",
        info.name);
  }
  int failed = 0;
  const int threads = options.gpu != nullptr ? 1 : available_threads();
  ThreadPool pool(std::min(threads, static_cast<int>(jobs.size())));
  std::vector<Runner> runners;
  runners.reserve(static_cast<std::size_t>(pool.threads()));
  for (int i = 0; i < pool.threads(); ++i) {
    runners.emplace_back(options);
  }
  in_order(
      pool, jobs.size(),
      [&](std::size_t index, int worker) {
        auto results = runners[static_cast<std::size_t>(worker)].run(jobs[index]);
        jobs[index].inputs.reset();
        return results;
      },
      [&](const std::vector<CheckResult>& results) {
        for (const CheckResult& result : results) {
          failed += result.passed ? 0 : 1;
          report(result);
        }
      });
  return failed;
}

}  // namespace fovea::lab
