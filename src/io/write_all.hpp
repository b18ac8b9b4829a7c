// Writes all bytes to a file descriptor, and syncs files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "io/descriptor.hpp"

namespace fovea::io {

/// Writes at the descriptor's position. Throws fovea::Error naming `path`.
void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

/// Writes at `offset` and leaves the descriptor's position alone.
void write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset,
                  const std::filesystem::path& path);

/// Whether the `result` of fsync(2) or fdatasync(2) counts as success. Network file systems that do
/// not support them fail with EINVAL or ENOTSUP, which is ignored.
[[nodiscard]] bool is_synced(int result);
/// Calls fsync(2), so that the content of a file or folder survives a power failure. Throws
/// fovea::Error naming `path` when the disk fails.
void sync_file(const Descriptor& file, const std::filesystem::path& path);

}  // namespace fovea::io
