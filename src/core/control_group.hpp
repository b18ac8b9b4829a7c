// The control groups of this process, whose files limit its memory and its CPUs.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace fovea {

/// The folders of the group that a controller ("memory", "cpu") has for this process and of all
/// groups around it, in versions 2 and 1; a folder may not exist. Inside a container the path may
/// be that on the host; then the last folder, the mount point, is the group. `root`: the folder
/// that stands for /.
[[nodiscard]] std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root,
                                                                std::string_view controller);

/// The CPUs' time that the groups' quotas allow, in CPUs ("docker --cpus 1.5"): the lowest of all;
/// infinity without one.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root);

/// What available_threads() answers, at least 1: the CPUs of this process's affinity, or as many as
/// the quota is worth, rounded up, if that is less.
[[nodiscard]] int threads_within(const std::filesystem::path& root);

}  // namespace fovea
