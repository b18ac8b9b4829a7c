// Finds control groups in /proc/self/cgroup.
#include "core/control_group.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <sched.h>

namespace fovea {
namespace {

namespace fs = std::filesystem;

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

double quotient(double time, double period) {
  return time > 0 && period > 0 ? time / period : kNoQuota;  // in version 1, -1 means no quota
}

/// Quota of one group: from cpu.max, such as "200000 100000" ("max": no quota), or from two files
/// in version 1.
double group_quota(const fs::path& group) {
  double time = 0;
  double period = 0;
  if (std::ifstream unified(group / "cpu.max"); unified >> time >> period) {
    return quotient(time, period);
  }
  std::ifstream times(group / "cpu.cfs_quota_us");
  std::ifstream periods(group / "cpu.cfs_period_us");
  return times >> time && periods >> period ? quotient(time, period) : kNoQuota;
}

}  // namespace

std::vector<fs::path> control_groups(const fs::path& root, std::string_view controller) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& mount, std::string_view group) {
    for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
      folders.push_back(mount / path);
      if (path.empty()) {
        return;
      }
    }
  };
  std::ifstream groups(root / "proc/self/cgroup");
  // Lines such as "0::/user.slice" (version 2) and "4:cpu,cpuacct:/docker/1f" (version 1).
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers.empty()) {
      add(mounts, group);
    } else if (fmt::format(",{},", controllers).find(fmt::format(",{},", controller)) !=
               std::string::npos) {
      add(mounts / controller, group);  // often a link to the mount
      add(mounts / controllers, group);
    }
  }
  return folders;
}

double cpu_quota(const fs::path& root) {
  double lowest = kNoQuota;
  for (const fs::path& group : control_groups(root, "cpu")) {
    lowest = std::min(lowest, group_quota(group));
  }
  return lowest;
}

int threads_within(const fs::path& root) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cpus = sched_getaffinity(0, sizeof(set), &set) == 0
                       ? CPU_COUNT(&set)
                       : static_cast<int>(std::thread::hardware_concurrency());
  // Rounded up, so that the threads can use the whole quota.
  return std::max(1, static_cast<int>(std::min<double>(cpus, std::ceil(cpu_quota(root)))));
}

}  // namespace fovea
