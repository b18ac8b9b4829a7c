// Scheduler: picks the next warp or asynchronous operation by seed and policy.
#include "emulator/machine/scheduler.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/program/place_name.hpp"

namespace emu {
namespace {

constexpr std::uint64_t kMaxTurn = 64;           // maximum number of operations of a warp per turn
constexpr int kMaxUndelayedTurn = 1024;          // the same, where warps are not delayed
constexpr std::uint32_t kMaxDelayedTurns = 256;  // the same for turns before delayed work runs
constexpr std::uint64_t kMaxReleases = 32;       // at the limit of operations, once for each lane
constexpr std::uint64_t kMaxDelay = 12;          // maximum number of turns before a block starts

std::string wait_text(const Split& split, Warp& warp) {
  Block& block = warp.block();
  switch (split.wait_for) {
    case WaitFor::kBarrier: {
      const Barrier& barrier = block.barriers.at(split.wait_detail);
      return fmt::format(
          ", waits at barrier {}: {} of {} threads have arrived", split.wait_detail,
          barrier.arrived_threads,
          barrier.expected_threads != 0 ? barrier.expected_threads : block.live_threads());
    }
    case WaitFor::kMbarrier: {
      const Block& owner = block.cluster().blocks()[split.wait_detail >> kRankShift];
      const auto mbarrier = owner.mbarriers.find(split.wait_detail & kOffsetMask);
      const std::string name =
          shared_variable_name(*block.grid().program, split.wait_detail & kOffsetMask);
      return fmt::format(
          ", waits at the mbarrier {:#x}{}: {}", split.wait_detail,
          name.empty() ? "" : " (" + name + ")",
          mbarrier == owner.mbarriers.end() ? "invalidated" : mbarrier->second.text());
    }
    case WaitFor::kClusterBarrier:
      return fmt::format(", waits at the cluster's barrier: {} threads have arrived",
                         block.cluster().arrived_threads);
    case WaitFor::kGrid:
      return ", waits for the previous grid";
    case WaitFor::kRegisters:
      return fmt::format(", waits for {} registers per thread: it has {}, and {} more are free",
                         split.wait_detail, warp.registers, block.free_registers);
    case WaitFor::kProducts:
      return fmt::format(", waits for product {} of its wgmma products, of which {} have completed",
                         warp.products.groups.front(), warp.products.last_finished);
    case WaitFor::kTensorAllocation:
      return fmt::format(
          ", waits for {} columns of tensor memory, or for the other block of its pair; allocated "
          "columns: {}",
          split.wait_detail, block.tensor.text());
    case WaitFor::kTensorMoves:
      return ", waits for its pending loads or stores of tensor memory";
    case WaitFor::kLanes:
      return fmt::format(", waits for lanes {:#010x} of its warp", split.wait_detail);
    case WaitFor::kNothing:
      break;
  }
  return "";
}

// Returns how many blocks of the running grid wait for a place, since others may wait for them.
std::string waiting_blocks_text(const Grid& grid, const RunOptions& options) {
  const std::uint64_t count = grid.block_count();
  return grid.started_blocks == count
             ? ""
             : fmt::format(
                   "; {} of {} blocks have not begun (RunOptions::resident_blocks, "
                   "--resident-blocks {})",
                   count - grid.started_blocks, count, options.resident_blocks);
}

}  // namespace

std::string_view name_of(Policy policy) {
  constexpr std::array<std::string_view, 6> kNames = {"from seed", "uniform", "priorities",
                                                      "eager",     "lazy",    "starve"};
  return kNames.at(static_cast<std::size_t>(policy));
}

Scheduler::Scheduler(std::deque<Grid>& grids, const RunOptions& options, std::mt19937_64& random)
    : grids_(grids),
      options_(options),
      random_(random),
      policy_(options.policy),
      step_limit_(options.max_steps) {
  if (policy_ == Policy::kFromSeed) {
    constexpr auto kFirst = static_cast<unsigned>(Policy::kUniform);
    constexpr unsigned kCount = static_cast<unsigned>(Policy::kStarve) - kFirst + 1;
    policy_ = static_cast<Policy>(kFirst + random_() % kCount);
  }
}

void Scheduler::run_to_end(Report& report) {
  report.policy = policy_;
  while (true) {
    start_clusters();
    if (resident_clusters_.empty()) {
      return;
    }
    if (grids_.front().tracer != nullptr) {
      grids_.front().tracer->begin_turn();
    }
    take_turn(report);
    std::erase_if(resident_clusters_, [](const auto& cluster) { return cluster->is_done(); });
  }
}

// Starts clusters. Grids start in order, each when the previous one has ended or allows it.
void Scheduler::start_clusters() {
  while (first_running_ < grids_.size() && grids_[first_running_].has_ended()) {
    ++first_running_;
  }
  for (std::size_t i = first_running_; i < grids_.size(); ++i) {
    Grid& grid = grids_[i];
    if (i > first_running_ && !(grid.is_dependent && grids_[i - 1].allows_next_grid())) {
      return;
    }
    if (grid.started_blocks == 0 && grid.races != nullptr) {
      grid.number_in_run = grid.races->begin_grid(grid.is_dependent);
    }
    const std::uint32_t size = grid.cluster_blocks();
    while (grid.started_blocks < grid.block_count() &&
           (grid.is_cooperative || grid.started_blocks == grid.ended_blocks ||
            grid.started_blocks - grid.ended_blocks + size <= options_.resident_blocks)) {
      auto cluster = std::make_unique<Cluster>(grid, grid.next_cluster());
      for (Block& block : cluster->blocks()) {
        block.start_delay = static_cast<std::uint32_t>(chance(2) ? 0 : random_() % kMaxDelay);
        for (Warp& warp : block.warps()) {
          warp.priority = random_();
        }
      }
      grid.started_blocks += size;
      resident_clusters_.push_back(std::move(cluster));
    }
  }
}

// Collects the splits of warps that are ready to run, in an order that the policy and the seed
// determine.
void Scheduler::collect_runnable() {
  runnable_.clear();
  has_delayed_block_ = false;
  for (const auto& cluster : resident_clusters_) {
    for (Block& block : cluster->blocks()) {
      if (block.start_delay > 0) {
        --block.start_delay;
        has_delayed_block_ = true;
        continue;
      }
      for (Warp& warp : block.warps()) {
        for (std::size_t split = 0; split < warp.splits().size(); ++split) {
          if (warp.can_run(split)) {
            runnable_.push_back({&warp, split});
          }
        }
      }
    }
  }
  std::ranges::shuffle(runnable_, random_);
  if (policy_ == Policy::kPriorities || !options_.check_late_warps) {
    std::ranges::sort(runnable_, std::greater{},
                      [](const Runnable& runnable) { return runnable.warp->priority; });
  }
}

bool Scheduler::is_skipped(const Runnable& runnable) const {
  return options_.check_late_warps && policy_ == Policy::kStarve && runnable.warp == starved_warp_;
}

std::uint64_t Scheduler::run(const Runnable& runnable) {
  const auto& [warp, split] = runnable;
  if (!warp->can_run(split)) {
    return 0;  // the splits were changed by a warp that ran earlier in this turn
  }
  const int limit =
      options_.check_late_warps ? 1 + static_cast<int>(random_() % kMaxTurn) : kMaxUndelayedTurn;
  return static_cast<std::uint64_t>(warp->run(split, limit));
}

std::uint64_t Scheduler::run_warps() {
  std::uint64_t operations = 0;
  for (const Runnable& runnable : runnable_) {
    if (is_skipped(runnable)) {
      continue;
    }
    operations += run(runnable);
    if (!options_.check_late_warps) {
      continue;  // every warp gets its turn before asynchronous work runs
    }
    if (policy_ == Policy::kEager) {
      run_async_works(true);
    }
    if (policy_ == Policy::kPriorities && operations > 0) {
      if (chance(32)) {
        runnable.warp->priority = 0;
      }
      break;
    }
  }
  return operations;
}

void Scheduler::trace(TraceKind kind, const AsyncWork& work) const {
  if (const Tracer* const tracer = grids_.front().tracer; tracer != nullptr) {
    tracer->record(kind, work.warp(), work.op(), work.lanes());
  }
}

// Runs one step of each item of asynchronous work, in random order; with `until_complete`, all its
// steps, in the order of issue. Returns the number of steps.
std::uint64_t Scheduler::run_async_works(bool until_complete) {
  std::uint64_t steps = 0;
  for (const auto& cluster : resident_clusters_) {
    auto& works = cluster->async_works();
    // Work that is started by a step first runs in a later turn.
    std::vector<AsyncWork*> order;
    for (const auto& work : works) {
      order.push_back(work.get());
    }
    if (!until_complete) {
      std::ranges::shuffle(order, random_);
    }
    std::vector<const AsyncWork*> ended;
    for (AsyncWork* const work : order) {
      bool has_ended = false;
      while (!has_ended && work->can_step()) {
        trace(TraceKind::kWork, *work);
        has_ended = work->step(random_);
        ++steps;
        if (!until_complete) {
          break;
        }
      }
      if (has_ended) {
        trace(TraceKind::kWorkEnd, *work);
        ended.push_back(work);
      }
    }
    if (!ended.empty()) {
      cluster->grid().async_work_count -= ended.size();
      std::erase_if(works, [&](const auto& work) {
        return std::ranges::find(ended, work.get()) != ended.end();
      });
    }
  }
  return steps;
}

// Runs warps, then some asynchronous work unless the policy delays it. Delayed work runs when
// nothing else has made progress: first the asynchronous work, then the starved warp. If nothing
// can run then, the run is in a deadlock.
void Scheduler::take_turn(Report& report) {
  if (policy_ == Policy::kStarve && (starved_warp_ == nullptr || chance(64))) {
    starved_warp_ = nullptr;
    collect_runnable();
    starved_warp_ = runnable_.empty() ? nullptr : runnable_.front().warp;
  } else {
    collect_runnable();
  }
  std::uint64_t operations = run_warps();
  report.steps += operations;
  if (policy_ != Policy::kLazy && chance(2)) {
    operations += run_async_works(policy_ == Policy::kEager);
  }
  // Warps that wait for work in a loop make progress all the time.
  delayed_turns_ = operations == 0 ? 0 : delayed_turns_ + 1;
  if (operations == 0 || delayed_turns_ > kMaxDelayedTurns) {
    operations += run_async_works(delayed_turns_ > kMaxDelayedTurns);
    delayed_turns_ = 0;
  }
  if (operations == 0) {
    for (const Runnable& runnable : runnable_) {
      if (is_skipped(runnable)) {
        operations += run(runnable);
      }
    }
    report.steps += operations;
  }
  if (operations == 0 && !has_delayed_block_ && !release_waiting_lanes()) {
    stop_deadlocked();
  }
  if (options_.max_steps != 0 && report.steps > step_limit_) {
    go_on_at_limit(report);
  }
}

// Lets waiting lanes go on, for which others may poll: then as many operations more are allowed.
// Else stops, if anything can still run; what this turn began with may have ended.
void Scheduler::go_on_at_limit(const Report& report) {
  const bool has_released = releases_ < kMaxReleases && release_waiting_lanes();
  releases_ += has_released ? 1 : 0;
  if (has_released || (releases_ > 0 && report.steps - options_.max_steps <= options_.max_steps)) {
    step_limit_ = report.steps + options_.max_steps / kMaxReleases;
    return;
  }
  collect_runnable();
  if (!runnable_.empty()) {
    stop_at(runnable_.front(), FindingKind::kNoProgress,
            fmt::format("the run has not ended after {} operations{}", report.steps,
                        waiting_blocks_text(grids_[first_running_], options_)));
  }
}

void Scheduler::stop_at(const Runnable& runnable, FindingKind kind, std::string message) const {
  const auto& [warp, number] = runnable;
  const Split& split = warp->splits()[number];
  warp->stop(kind, warp->block().grid().program->ops[static_cast<std::size_t>(split.operation)],
             split.lanes, std::move(message));
}

// Lets lanes go on that wait to meet others of their warp again; returns whether there were any.
bool Scheduler::release_waiting_lanes() {
  bool has_released = false;
  for (const auto& cluster : resident_clusters_) {
    for (Block& block : cluster->blocks()) {
      for (Warp& warp : block.warps()) {
        has_released = warp.release_waiting_lanes() || has_released;
      }
    }
  }
  return has_released;
}

// Stops if lanes wait at a warp-wide instruction for others that cannot come, since these wait
// where the lanes would join them.
void Scheduler::stop_at_missing_lanes() const {
  for (const Runnable& runnable : runnable_) {
    Warp& warp = *runnable.warp;
    const Split& split = warp.splits()[runnable.split];
    if (!split.is_blocked || split.wait_for != WaitFor::kLanes) {
      continue;
    }
    Lanes elsewhere = 0;  // lanes that wait for something else
    for (std::size_t i = 0; i < warp.splits().size(); ++i) {
      const Split& other = warp.splits()[i];
      if (warp.can_run(i) && other.wait_for != WaitFor::kLanes) {
        elsewhere |= other.lanes;
      }
    }
    const Lanes live = split.wait_detail & warp.live_lanes();
    if ((live & elsewhere) == 0) {
      stop_at(runnable, FindingKind::kDivergent,
              fmt::format("the mask names the live lanes {:#010x}, but lanes {:#010x} execute it",
                          live, split.lanes));
    }
  }
}

void Scheduler::stop_deadlocked() {
  // Splits have joined others where all lanes of a warp have met again.
  std::erase_if(runnable_,
                [](const Runnable& runnable) { return !runnable.warp->can_run(runnable.split); });
  for (const auto& cluster : resident_clusters_) {
    if (runnable_.empty() && !cluster->async_works().empty()) {
      const AsyncWork& work = *cluster->async_works().front();
      work.warp().stop(FindingKind::kDeadlock, work.op(), work.lanes(),
                       "its asynchronous work never completes");
    }
  }
  stop_at_missing_lanes();
  constexpr std::size_t kMaxListed = 16;
  std::string waiting;
  for (std::size_t i = 0; i < std::min(runnable_.size(), kMaxListed); ++i) {
    const auto& [warp, number] = runnable_[i];
    const Split& split = warp->splits()[number];
    const syntax::Instruction& instruction =
        *warp->block().grid().program->ops[static_cast<std::size_t>(split.operation)].instruction;
    waiting += fmt::format("{}block ({}) warp {} lanes {:#010x} at {}, line {}{}",
                           waiting.empty() ? "" : "; ", fmt::join(warp->block().index(), ","),
                           warp->index(), split.lanes, instruction.opcode, instruction.line,
                           wait_text(split, *warp));
  }
  if (runnable_.size() > kMaxListed) {
    waiting += fmt::format("; and {} more", runnable_.size() - kMaxListed);
  }
  stop_at(runnable_.front(), FindingKind::kDeadlock, "no warp can make progress: " + waiting);
}

}  // namespace emu
