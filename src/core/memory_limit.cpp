// memory_limit from sysconf(3), getrlimit(2) and the files of control groups.
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

// The number in a file such as memory.max. There is no limit when it says "max" or does not exist.
std::uint64_t read_limit(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t limit = 0;
  return file >> limit ? limit : std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t control_group_limit(const fs::path& root) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const fs::path& group : control_groups(root, "memory")) {
    for (const char* const file : {"memory.max", "memory.limit_in_bytes"}) {
      least = std::min(least, read_limit(group / file));
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
