// Renders a Page of pictures, with their thumbnails, as HTML.
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

/// Returns the files whose pictures the page shows, without duplicates. The pictures at the end of
/// long sections are not among them, since only their names are listed.
[[nodiscard]] std::vector<std::filesystem::path> page_files(const Page& page);

/// Returns the length of the longest side of a thumbnail in pixels, which is smaller on a page of
/// many pictures.
[[nodiscard]] int thumbnail_side(std::size_t pictures);

using Thumbnails = std::map<std::filesystem::path, Thumbnail>;
/// Thumbnails with the heat of a section, by the index of the section and the file.
using HeatThumbnails = std::map<std::pair<std::size_t, std::filesystem::path>, Thumbnail>;

/// Returns the indices of the sections that draw heat over the picture of this file.
[[nodiscard]] std::vector<std::size_t> heat_sections(const Page& page,
                                                     const std::filesystem::path& file);

/// Returns the HTML document. `thumbnails` must contain all page_files(). `heats`: thumbnails that
/// replace them in single sections. Photos below `folder`, an absolute path, are linked by relative
/// paths, others by absolute ones.
[[nodiscard]] std::string render_page(const Page& page, const Thumbnails& thumbnails,
                                      const std::filesystem::path& folder,
                                      const HeatThumbnails& heats = {});

}  // namespace fovea::search
