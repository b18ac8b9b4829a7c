// The control groups of this process, whose files limit its memory and its CPUs.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace fovea {

/// Returns the folders of this process's group for a controller ("memory", "cpu") and of all its
/// parent groups, for cgroup versions 2 and 1. Some of them may not exist: inside a container the
/// path may be that of the host, so only the last folder, the mount point, exists and is the group.
/// `root` replaces / in tests.
[[nodiscard]] std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root,
                                                                std::string_view controller);

/// Returns the lowest CPU quota of the groups, in CPUs (1.5 for "docker --cpus 1.5"); infinity
/// without a quota.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root);

/// Returns the number of threads for available_threads(), at least 1: the number of CPUs in this
/// process's affinity mask, or the quota, rounded up, if that is less.
[[nodiscard]] int threads_within(const std::filesystem::path& root);

}  // namespace fovea
