// Writes all bytes to a file descriptor, in as many calls as needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace fovea::io {

/// Writes at the descriptor's position. Throws fovea::Error naming `path`.
void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

/// Writes at `offset` and leaves the descriptor's position alone.
void write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset,
                  const std::filesystem::path& path);

}  // namespace fovea::io
