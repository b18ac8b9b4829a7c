// Thumbnails of photos wherever `fovea embed` took them from: files and members of archives.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/thread_pool.hpp"
#include "search/thumbnail.hpp"

namespace fovea {

/// Where each picture is, by any key. A path "x.tar#key.jpg" that is no file is a member of x.tar.
using PicturePaths = std::map<std::string, std::filesystem::path>;

/// A thumbnail for each, under the same key; what cannot be read has its error in it.
[[nodiscard]] std::map<std::string, search::Thumbnail> make_thumbnails(const PicturePaths& paths,
                                                                       ThreadPool& pool);

}  // namespace fovea
