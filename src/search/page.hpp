// The page of pictures: turns a Page and its thumbnails into HTML.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "fovea/search.hpp"
#include "search/thumbnail.hpp"

namespace fovea::search {

/// Text as HTML content or within a quoted attribute: markup characters become entities, control
/// characters "\xHH". `text` must be UTF-8.
[[nodiscard]] std::string html_escape(std::string_view text);

/// The key of the thumbnail of a picture.
[[nodiscard]] std::string thumbnail_key(const PagePicture& picture);

/// The whole HTML document. `thumbnails` must hold one per picture, by key.
[[nodiscard]] std::string render_page(const Page& page,
                                      const std::map<std::string, Thumbnail>& thumbnails);

}  // namespace fovea::search
