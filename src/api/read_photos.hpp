// Reads photos again from where `fovea embed` took them: files and members of archives.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/thread_pool.hpp"

namespace fovea {

/// Called with the encoded image of path `index`, or without bytes and with the reason why there
/// are none. An Error that it throws ends the reading.
using UsePhoto = std::function<void(std::size_t index, std::span<const std::byte> bytes,
                                    const std::string& error)>;

/// Reads every path once, in any order and in several threads; an archive is read once for all of
/// its members. A path "x.tar#key.jpg" that is not a file is a member of x.tar.
void read_photos(std::span<const std::filesystem::path> paths, ThreadPool& pool,
                 const UsePhoto& use);

/// The archive that a path "x.tar#key.jpg" leads into, or "" when there is no such file.
[[nodiscard]] std::string archive_of(const std::string& path);

}  // namespace fovea
