// All bytes to a file descriptor, however many calls that takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace fovea::io {

/// At the descriptor's place. Throws fovea::Error naming `path`.
void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

/// At `offset`, the descriptor's place left alone.
void write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset,
                  const std::filesystem::path& path);

}  // namespace fovea::io
