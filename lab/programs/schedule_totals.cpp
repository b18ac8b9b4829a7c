// What the schedules of a launch have found, counted in the order of their numbers.
#include "lab/programs/schedule_totals.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace fovea::programs {

void ScheduleTotals::add(std::uint64_t schedule, emu::Report report) {
  std::string().swap(report.printed);
  const std::scoped_lock lock(mutex_);
  waiting_.emplace(schedule, std::move(report));
  while (!has_ended_ && !waiting_.empty() && waiting_.begin()->first == next_) {
    count(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    ++next_;
  }
  if (has_ended_) {
    waiting_.clear();
  }
}

void ScheduleTotals::count(emu::Report& report) {
  ++schedules_;
  operations_ += report.steps;
  ignored_by_.resize(std::max(ignored_by_.size(), report.ignored_by.size()));
  for (std::size_t i = 0; i < report.ignored_by.size(); ++i) {
    ignored_by_[i] += report.ignored_by[i];
  }
  if (!report.is_clean()) {
    findings_.emplace(next_, std::move(report.findings));
    has_ended_ = !all_;
  }
}

}  // namespace fovea::programs
