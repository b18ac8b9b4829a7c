// Implements memory_limit() with sysconf(3), getrlimit(2) and the files of control groups.
#include "core/memory_limit.hpp"

#include <algorithm>
#include <fstream>
#include <limits>

#include <sys/resource.h>
#include <unistd.h>

#include "core/control_group.hpp"

namespace fovea {
namespace {

namespace fs = std::filesystem;

// Returns the limit in a file such as memory.max; the maximum value if the file contains "max" or
// does not exist.
std::uint64_t read_limit(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t limit = 0;
  return file >> limit ? limit : std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t control_group_limit(const fs::path& root) {
  std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
  for (const fs::path& group : control_groups(root, "memory")) {
    for (const char* const file : {"memory.max", "memory.limit_in_bytes"}) {
      lowest = std::min(lowest, read_limit(group / file));
    }
  }
  return lowest;
}

}  // namespace

std::uint64_t memory_limit(const fs::path& root) {
  const auto page_count = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  const auto page_size = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
  std::uint64_t limit = std::min(page_count * page_size, control_group_limit(root));
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    limit = std::min(limit, static_cast<std::uint64_t>(space.rlim_cur));
  }
  return limit;
}

}  // namespace fovea
