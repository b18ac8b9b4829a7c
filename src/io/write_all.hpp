// Writes all bytes to a file descriptor, in as many calls as needed, and makes them last.
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

/// Whether fsync(2) or fdatasync(2), which gave `result`, did what it can. Some network file
/// systems cannot sync and say so (EINVAL, ENOTSUP); what was written stands all the same.
[[nodiscard]] bool is_synced(int result);
/// Makes what was written to a file, or the names in a folder, survive a power cut. Throws
/// fovea::Error naming `path` when the disk fails.
void sync_file(const Descriptor& file, const std::filesystem::path& path);

}  // namespace fovea::io
