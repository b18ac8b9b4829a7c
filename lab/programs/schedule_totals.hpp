// What the schedules of a launch have found, counted in the order of their numbers.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "fovea_emulator/finding.hpp"

namespace fovea::programs {

/// Counts all schedules, or those up to the first that is not clean, in the order of their numbers,
/// so that nothing depends on the order in which threads run them. Keeps findings, but nothing that
/// kernels have printed.
class ScheduleTotals {
 public:
  /// `first` is the number of the first schedule.
  ScheduleTotals(std::uint64_t first, bool all) : next_(first), all_(all) {}

  /// Takes the report of a schedule; several threads may call it.
  void add(std::uint64_t schedule, emu::Report report);

  // What has been counted; no schedule is added any more.
  [[nodiscard]] std::uint64_t schedules() const { return schedules_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  [[nodiscard]] const std::vector<std::uint64_t>& ignored_by() const { return ignored_by_; }
  /// Findings of the schedules that are not clean, by their numbers.
  [[nodiscard]] std::map<std::uint64_t, std::vector<emu::Finding>>& findings() { return findings_; }

 private:
  void count(emu::Report& report);

  std::mutex mutex_;
  std::map<std::uint64_t, emu::Report> waiting_;  // for those before them
  std::uint64_t next_;                            // number of the schedule that is counted next
  bool all_;
  bool has_ended_ = false;
  std::uint64_t schedules_ = 0;
  std::uint64_t operations_ = 0;
  std::vector<std::uint64_t> ignored_by_;
  std::map<std::uint64_t, std::vector<emu::Finding>> findings_;
};

}  // namespace fovea::programs
