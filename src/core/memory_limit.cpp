// memory_limit from sysconf(3), getrlimit(2) and the files of control groups.
#include "core/memory_limit.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

namespace fovea {
namespace {

namespace fs = std::filesystem;

// The number in a file such as memory.max. There is no limit when it says "max" or does not exist.
std::uint64_t read_limit(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t limit = 0;
  return file >> limit ? limit : std::numeric_limits<std::uint64_t>::max();
}

// The lowest limit of the group `group` ("/a/b") and of all groups around it, up to the mount
// point.
std::uint64_t group_limit(const fs::path& mount, std::string_view group, std::string_view file) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  // Inside a container the path may be that on the host; then the mount point itself is the group.
  for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
    least = std::min(least, read_limit(mount / path / file));
    if (path.empty()) {
      return least;
    }
  }
}

std::uint64_t control_group_limit(const fs::path& root) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::ifstream groups(root / "proc/self/cgroup");
  // Lines such as "0::/user.slice" (version 2) and "4:memory:/docker/1f" (version 1).
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string_view text = line;
    const std::string controllers = fmt::format(",{},", text.substr(first + 1, second - first - 1));
    const std::string_view group = text.substr(second + 1);
    if (controllers == ",,") {
      least = std::min(least, group_limit(root / "sys/fs/cgroup", group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least,
                       group_limit(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace

std::uint64_t memory_limit(const fs::path& root) {
  const auto pages = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  const auto page = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
  std::uint64_t limit = std::min(pages * page, control_group_limit(root));
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    limit = std::min(limit, static_cast<std::uint64_t>(space.rlim_cur));
  }
  return limit;
}

}  // namespace fovea
