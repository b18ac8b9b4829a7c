// Reads the photos of a collection again, from files and from members of archives.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/thread_pool.hpp"
#include "image/decode.hpp"

namespace fovea {

/// An encoded image, or no bytes and the reason why there are none.
struct EncodedPhoto {
  std::span<const std::byte> bytes;
  std::string error;
  image::DecodeOptions decoding;  // with the memory that all photos share
};

/// Called with the photo of the path with this index. An Error that it throws ends the reading.
using UsePhoto = std::function<void(std::size_t index, const EncodedPhoto& photo)>;

/// Reads every path once, in any order and in several threads; an archive is read once for all of
/// its members. Threads wait while the photos in memory use all of default_decode_memory(). A path
/// "x.tar#key.jpg" that is not a file is a member of x.tar.
void read_photos(std::span<const std::filesystem::path> paths, ThreadPool& pool,
                 const UsePhoto& use);

/// Returns the archive in a path such as "x.tar#key.jpg", or "" when there is no such file.
[[nodiscard]] std::string containing_archive(const std::string& path);

}  // namespace fovea
