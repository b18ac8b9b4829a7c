// Reads encoded images from untrusted files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/source.hpp"

namespace fovea::pipeline {

/// The maximum size of a file or archive member in bytes, enough for images of all accepted sizes.
inline constexpr std::size_t kMaxEncodedBytes = std::size_t{1} << 30;

/// Takes the memory for an encoded image of `bytes` from limits.encoded; waits until that much is
/// free. Throws fovea::Error when `bytes` exceeds kMaxEncodedBytes or the size of the pool.
[[nodiscard]] MemoryPool::Lease take_encoded(std::size_t bytes, const Limits& limits);

/// Reads the whole file into `bytes`. Returns the lease of the memory for it. Sets `stamp`, unless
/// it is null, to that of the file before it is read. Throws fovea::Error, without the name of the
/// file, when it cannot be read, is not a regular file, is empty, or is larger than take_encoded()
/// allows; ResourceError when the machine lacks descriptors or memory; Interrupted when limits.stop
/// is set. Never blocks on a pipe or device.
[[nodiscard]] MemoryPool::Lease read_file(const std::string& path, std::vector<std::byte>& bytes,
                                          const Limits& limits = {},
                                          std::optional<io::FileStamp>* stamp = nullptr);

}  // namespace fovea::pipeline
