// How much memory this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace fovea {

/// The least of what the machine has, what the control groups of the process allow (version 2 and
/// 1, those around it too) and its limit of address space. `root` is for tests: the folder that
/// stands for /.
[[nodiscard]] std::uint64_t memory_limit(const std::filesystem::path& root = "/");

}  // namespace fovea
