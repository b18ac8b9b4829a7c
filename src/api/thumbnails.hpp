// Thumbnails of photos from where `fovea embed` took them: files and members of archives.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/thread_pool.hpp"
#include "search/thumbnail.hpp"

namespace fovea {

/// The place of each picture, by any key. A path "x.tar#key.jpg" that is not a file is a member of
/// x.tar.
using PicturePaths = std::map<std::string, std::filesystem::path>;

/// A thumbnail per picture, under the same key; that of an unreadable picture holds the error.
[[nodiscard]] std::map<std::string, search::Thumbnail> make_thumbnails(const PicturePaths& paths,
                                                                       ThreadPool& pool);

}  // namespace fovea
