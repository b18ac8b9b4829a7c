// Renders a Page of pictures and its thumbnails as HTML.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fovea/search.hpp"
#include "search/thumbnail.hpp"

namespace fovea::search {

/// Returns the files whose pictures the page shows, each once. Long sections end in a list of
/// names.
[[nodiscard]] std::vector<std::filesystem::path> pictures_of(const Page& page);

/// The longest side of a thumbnail in pixels on a page of so many pictures: the more there are, the
/// smaller they are.
[[nodiscard]] int thumbnail_side(std::size_t pictures);

using Thumbnails = std::map<std::filesystem::path, Thumbnail>;
/// Thumbnails with the heat of a section, by the section's number.
using HeatThumbnails = std::map<std::pair<std::size_t, std::filesystem::path>, Thumbnail>;

/// The numbers of the sections that draw heat over pictures of this file.
[[nodiscard]] std::vector<std::size_t> heat_of(const Page& page, const std::filesystem::path& file);

/// The whole HTML document. `thumbnails` must hold all pictures_of() it; pictures that have one of
/// `heats` show that. Photos below `folder`, an absolute path, are linked relative to it, others by
/// their absolute paths.
[[nodiscard]] std::string render_page(const Page& page, const Thumbnails& thumbnails,
                                      const std::filesystem::path& folder,
                                      const HeatThumbnails& heats = {});

}  // namespace fovea::search
