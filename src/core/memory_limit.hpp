// How much memory this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace fovea {

/// Bytes of memory that this process may use: the minimum of the machine's memory, the limits of
/// the process's control group and its parents (versions 2 and 1), and the address space limit.
/// `root` replaces / in tests.
[[nodiscard]] std::uint64_t memory_limit(const std::filesystem::path& root = "/");

}  // namespace fovea
