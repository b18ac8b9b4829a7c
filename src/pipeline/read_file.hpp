// Reads encoded images from untrusted files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/source.hpp"

namespace fovea::pipeline {

/// The maximum size of a file or archive member in bytes. No image of an accepted size needs more.
inline constexpr std::size_t kMaxEncodedBytes = std::size_t{1} << 30;

/// Takes the memory for an encoded image of `bytes` from limits.encoded, and waits until it is
/// free. Throws fovea::Error when that is more than kMaxEncodedBytes or than the whole pool.
[[nodiscard]] MemoryPool::Lease take_encoded(std::size_t bytes, const Limits& limits);

/// Reads the whole file into `bytes`; the result holds the memory for it. Throws fovea::Error with
/// the reason, without the name, when it cannot be read, is not a regular file (never blocks on a
/// pipe or device), is empty, or is larger than take_encoded() allows; ResourceError when the
/// machine lacks descriptors or memory; Interrupted. `stamp` is set to that of the file before it
/// is read.
[[nodiscard]] MemoryPool::Lease read_file(const std::string& path, std::vector<std::byte>& bytes,
                                          const Limits& limits = {},
                                          std::optional<io::FileStamp>* stamp = nullptr);

}  // namespace fovea::pipeline
