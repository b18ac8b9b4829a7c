// How much memory this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace fovea {

/// Bytes of memory to use: the lowest of the machine's memory, the limits of the control groups of
/// the process (versions 2 and 1, and the groups around it) and its limit of address space. `root`
/// is for tests: the folder that stands for /.
[[nodiscard]] std::uint64_t memory_limit(const std::filesystem::path& root = "/");

}  // namespace fovea
