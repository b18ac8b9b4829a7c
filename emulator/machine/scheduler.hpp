// Scheduler: picks the next warp or asynchronous operation by seed and policy.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "emulator/machine/cluster.hpp"
#include "fovea_emulator/device.hpp"

namespace emu {

class Scheduler {
 public:
  /// Schedules these grids, in order.
  Scheduler(std::deque<Grid>& grids, const RunOptions& options, std::mt19937_64& random);

  /// Runs all grids to their end. Throws Stop at a finding.
  void run_to_end(Report& report);

 private:
  struct Runnable {
    Warp* warp;
    std::size_t split;
  };

  void start_clusters();
  void take_turn(Report& report);
  void collect_runnable();
  std::uint64_t run_warps();
  std::uint64_t run_async_works(bool until_complete);
  void trace(TraceKind kind, const AsyncWork& work) const;
  std::uint64_t run(const Runnable& runnable);
  [[nodiscard]] bool is_skipped(const Runnable& runnable) const;
  [[nodiscard]] bool chance(unsigned one_in) { return random_() % one_in == 0; }
  [[noreturn]] void stop_at(const Runnable& runnable, FindingKind kind, std::string message) const;
  void stop_at_missing_lanes() const;
  bool release_waiting_lanes();
  void go_on_at_limit(const Report& report);
  [[noreturn]] void stop_deadlocked();

  std::deque<Grid>& grids_;
  const RunOptions& options_;
  std::mt19937_64& random_;
  Policy policy_;
  std::uint64_t step_limit_;
  std::uint64_t releases_ = 0;  // of lanes, at the limit of operations
  std::deque<std::unique_ptr<Cluster>> resident_clusters_;
  std::vector<Runnable> runnable_;
  bool has_delayed_block_ = false;  // a resident block has not started yet
  const Warp* starved_warp_ = nullptr;
  std::uint32_t delayed_turns_ = 0;  // turns since asynchronous work last had to run
  std::size_t first_running_ = 0;    // index of the first running grid
};

}  // namespace emu
