// HTML written out piece by piece; every name goes through html_escape.
#include "search/page.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "search/page_style.hpp"

namespace fovea::search {
namespace {

using CharAndText = std::pair<char, std::string_view>;
constexpr CharAndText kHtmlEscapes[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

// "photos/a.jpg" as its folder "photos/" and its name "a.jpg". A tar member's folder is the
// archive: "x.tar#a.jpg".
std::pair<std::string_view, std::string_view> split(std::string_view source) {
  const std::size_t end = source.find_last_of("/#");
  if (end == std::string_view::npos || end + 1 == source.size()) {
    return {{}, source};
  }
  return {source.substr(0, end + 1), source.substr(end + 1)};
}

void add_picture(std::string& html, const PagePicture& picture, const Thumbnail& thumbnail) {
  const std::string source = html_escape(picture.source);
  html += fmt::format("<figure title=\"{}\">", source);
  if (thumbnail.error.empty()) {
    html += fmt::format(
        "<div class=\"tile\"><img src=\"{}\" alt=\"{}\" width=\"{}\" height=\"{}\" "
        "loading=\"lazy\"></div>",
        thumbnail.data_uri, source, thumbnail.width, thumbnail.height);
  } else {
    const std::string error = html_escape(thumbnail.error);
    html += fmt::format(
        "<div class=\"tile missing\" role=\"img\" aria-label=\"{}: no picture, {}\" "
        "title=\"{}\"><span>No picture<br>{}</span></div>",
        source, error, error, error);
  }
  const auto [folder, name] = split(picture.source);
  html += fmt::format("<figcaption><bdi class=\"name\">{}</bdi>", html_escape(name));
  if (!folder.empty()) {
    html += fmt::format("<bdi class=\"folder\">{}</bdi>", html_escape(folder));
  }
  if (picture.score) {
    html += fmt::format(
        "<span class=\"score\">{:.4f}<span class=\"bar\" aria-hidden=\"true\">"
        "<i style=\"width:{:.1f}%\"></i></span></span>",
        *picture.score, std::clamp(*picture.score, 0.0, 1.0) * 100);
  }
  html += "</figcaption></figure>";
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string html;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const auto* escape = std::ranges::find(kHtmlEscapes, c, &CharAndText::first);
        escape != std::end(kHtmlEscapes)) {
      html += escape->second;
    } else if (byte < 0x20 || byte == 0x7f) {
      html += fmt::format("\\x{:02x}", byte);
    } else {
      html += c;
    }
  }
  return html;
}

std::string thumbnail_key(const PagePicture& picture) {
  // No name holds a NUL byte, so the two kinds of key never collide.
  return picture.file.empty() ? picture.source : picture.file.native() + std::string(1, '\0');
}

std::string render_page(const Page& page, const std::map<std::string, Thumbnail>& thumbnails) {
  const auto thumbnail_of = [&](const PagePicture& picture) -> const Thumbnail& {
    const auto found = thumbnails.find(thumbnail_key(picture));
    if (found == thumbnails.end()) {
      fail("{}: has no thumbnail", picture.source);
    }
    return found->second;
  };
  const std::string title = html_escape(page.title);
  // The page may neither fetch nor run anything, whatever a name holds.
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<header><h1>{}</h1><p>{}</p>"
      "</header>\n<main>\n",
      title, kPageStyle, title, html_escape(page.description));
  for (const PageSection& section : page.sections) {
    if (section.query) {
      html += "<section>\n<div class=\"query\"><h2>Query</h2>";
      add_picture(html, *section.query, thumbnail_of(*section.query));
      html += "</div>\n<div>";
    } else {
      html += "<section class=\"plain\">\n<div>";
    }
    const std::size_t count = section.pictures.size();
    html += fmt::format("<p class=\"count\">{} {}{}</p>\n<ol class=\"grid\">\n", count,
                        section.query ? "neighbour" : "photo", count == 1 ? "" : "s");
    for (const PagePicture& picture : section.pictures) {
      html += "<li>";
      add_picture(html, picture, thumbnail_of(picture));
      html += "</li>\n";
    }
    html += "</ol></div>\n</section>\n";
  }
  html +=
      "</main>\n<footer>Numbers are cosine similarities of the photos' embeddings. Made by "
      "Fovea " FOVEA_VERSION ".</footer>\n</body>\n</html>\n";
  return html;
}

}  // namespace fovea::search
