// Renders a page as HTML. All names are escaped with html_escape() or percent_encode().
#include "search/page.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/html.hpp"
#include "search/page_style.hpp"

namespace fovea::search {
namespace fs = std::filesystem;
namespace {

using io::html_escape;

// The maximum number of pictures per section. Further photos are listed by name.
constexpr std::size_t kPicturesPerSection = 60;

// Splits "photos/a.jpg" into the folder "photos/" and the name "a.jpg", and "x.tar#a.jpg", a member
// of an archive, into "x.tar#" and "a.jpg".
std::pair<std::string_view, std::string_view> split_source(const Photo& photo) {
  const std::string_view source = photo.source;
  const std::size_t end = source.find_last_of(photo.is_member ? "/#" : "/");
  if (end == std::string_view::npos || end + 1 == source.size()) {
    return {{}, source};
  }
  return {source.substr(0, end + 1), source.substr(end + 1)};
}

// Formats a score with four decimals, or with six near 1. Scores below 1 are never shown as 1.
std::string score_text(double score) {
  constexpr double kSixDecimalLimit = 0.9999;
  constexpr double kMaxBelowOne = 0.999999;  // only equal embeddings have the score 1
  return score > kSixDecimalLimit && score < 1
             ? fmt::format("{:.6f}", std::min(score, kMaxBelowOne))
             : fmt::format("{:.4f}", score);
}

std::span<const PagePicture> shown_pictures(const PageSection& section) {
  return std::span(section.pictures).first(std::min(section.pictures.size(), kPicturesPerSection));
}

class Renderer {
 public:
  Renderer(const Page& page, const Thumbnails& thumbnails, const fs::path& folder,
           const HeatThumbnails& heats)
      : page_(page), thumbnails_(thumbnails), heats_(heats), folder_(folder) {
    for (const PageSection& section : page.sections) {
      for (const PagePicture& picture : section.pictures) {
        if (picture.score) {
          min_score_ = std::min(min_score_, *picture.score);
          max_score_ = std::max(max_score_, *picture.score);
        }
      }
    }
  }

  std::string run() {
    add_head();
    bool has_heat = false;
    for (; section_ < page_.sections.size(); ++section_) {
      add_section(page_.sections[section_]);
      has_heat = has_heat || !page_.sections[section_].heat.empty();
    }
    html_ += "</main>\n<footer>Numbers are cosine similarities of the photos' embeddings.";
    if (min_score_ < max_score_) {
      html_ += fmt::format(" Bars run from {}, the lowest on this page, to {}, the highest.",
                           score_text(min_score_), score_text(max_score_));
    }
    if (has_heat) {
      html_ +=
          " Colours show where in a photo the words apply, from dark violet to light yellow, "
          "scaled for each photo separately.";
    }
    html_ += " Made by Fovea " FOVEA_VERSION ".</footer>\n</body>\n</html>\n";
    return std::move(html_);
  }

 private:
  void add_head() {
    html_ += io::html_head(page_.title, kPageStyle);
    html_ += fmt::format("<header><h1>{}</h1><p>{}</p></header>\n<main>\n",
                         html_escape(page_.title), html_escape(page_.description));
  }

  void add_section(const PageSection& section) {
    if (section.query) {
      html_ += "<section>\n<div class=\"query\"><h2>Query</h2>";
      add_picture(*section.query);
      html_ += "</div>\n<div>";
    } else {
      html_ += "<section class=\"plain\">\n<div>";
    }
    html_ += fmt::format("<h2>{} <span>{}</span></h2>\n<ol class=\"grid\">\n",
                         html_escape(section.title), html_escape(section.subtitle));
    for (const PagePicture& picture : shown_pictures(section)) {
      html_ += "<li>";
      add_picture(picture);
      html_ += "</li>\n";
    }
    html_ += "</ol>";
    if (section.pictures.size() > kPicturesPerSection) {
      add_list(std::span(section.pictures).subspan(kPicturesPerSection));
    }
    html_ += "</div>\n</section>\n";
  }

  void add_picture(const PagePicture& picture) {
    const std::string source = html_escape(picture.photo.source);
    html_ +=
        fmt::format("<figure title=\"{}\"{}>", source, picture.is_kept ? " class=\"kept\"" : "");
    open_link(picture.photo);
    const bool has_file = !picture.photo.file.empty();
    const std::string& problem = has_file ? thumbnail(picture).error : picture.photo.error;
    if (problem.empty()) {
      const Thumbnail& image = thumbnail(picture);
      html_ += fmt::format(
          "<div class=\"tile\"><img src=\"{}\" alt=\"{}\" width=\"{}\" height=\"{}\" "
          "loading=\"lazy\"></div>",
          image.data_uri, source, image.width, image.height);
    } else {
      const std::string error = html_escape(problem);
      html_ += fmt::format(
          "<div class=\"tile missing\" role=\"img\" aria-label=\"{}: no picture, {}\" "
          "title=\"{}\"><span>No picture<br>{}</span></div>",
          source, error, error, error);
    }
    close_link(picture.photo);
    const auto [folder, name] = split_source(picture.photo);
    html_ += fmt::format("<figcaption>{}<bdi class=\"name\">{}</bdi>", badge(picture),
                         html_escape(name));
    if (!folder.empty()) {
      html_ += fmt::format("<bdi class=\"folder\">{}</bdi>", html_escape(folder));
    }
    for (const std::string& fact : picture.facts) {
      html_ += fmt::format("<span class=\"fact\">{}</span>", html_escape(fact));
    }
    if (picture.score) {
      const double bar_length =
          min_score_ < max_score_ ? (*picture.score - min_score_) / (max_score_ - min_score_) : 1;
      html_ += fmt::format(
          "<span class=\"score\">{}<span class=\"bar\" aria-hidden=\"true\">"
          "<i style=\"width:{:.1f}%\"></i></span></span>",
          score_text(*picture.score), std::clamp(bar_length, 0.0, 1.0) * 100);
    }
    html_ += "</figcaption></figure>";
  }

  void add_list(std::span<const PagePicture> pictures) {
    html_ += fmt::format("<details><summary>{} more</summary><ul>\n", pictures.size());
    for (const PagePicture& picture : pictures) {
      html_ += "<li>";
      open_link(picture.photo);
      html_ += fmt::format("<bdi>{}</bdi>", html_escape(picture.photo.source));
      close_link(picture.photo);
      html_ += fmt::format(" {} {}", score_text(picture.score.value_or(1)), badge(picture));
      for (const std::string& fact : picture.facts) {
        html_ += fmt::format("<span class=\"fact\">{}</span>", html_escape(fact));
      }
      html_ += "</li>\n";
    }
    html_ += "</ul></details>";
  }

  static std::string badge(const PagePicture& picture) {
    if (picture.label.empty()) {
      return "";
    }
    return fmt::format("<span class=\"badge{}\">{}</span>",
                       picture.is_kept   ? " keep"
                       : picture.is_copy ? " copy"
                                         : "",
                       html_escape(picture.label));
  }

  // Returns whether a photo can be linked. Browsers cannot open members of archives or missing
  // files.
  static bool has_link(const Photo& photo) { return photo.error.empty() && !photo.is_member; }

  void open_link(const Photo& photo) {
    if (!has_link(photo)) {
      return;
    }
    const fs::path file = fs::absolute(photo.file).lexically_normal();
    const fs::path relative = file.lexically_relative(folder_);
    const bool is_below = !relative.empty() && *relative.begin() != "..";
    html_ += fmt::format("<a href=\"{}{}\">", is_below ? "./" : "file://",
                         percent_encode(is_below ? relative.native() : file.native(), "/"));
  }

  void close_link(const Photo& photo) { html_ += has_link(photo) ? "</a>" : ""; }

  [[nodiscard]] const Thumbnail& thumbnail(const PagePicture& picture) const {
    if (const auto heat = heats_.find({section_, picture.photo.file}); heat != heats_.end()) {
      return heat->second;
    }
    const auto entry = thumbnails_.find(picture.photo.file);
    if (entry == thumbnails_.end()) {
      fail("{}: the thumbnail is missing", picture.photo.source);
    }
    return entry->second;
  }

  const Page& page_;
  const Thumbnails& thumbnails_;
  const HeatThumbnails& heats_;
  fs::path folder_;
  std::size_t section_ = 0;  // the index of the current section
  double min_score_ = std::numeric_limits<double>::infinity();
  double max_score_ = -std::numeric_limits<double>::infinity();
  std::string html_;
};

}  // namespace

std::vector<fs::path> page_files(const Page& page) {
  std::set<fs::path> files;
  for (const PageSection& section : page.sections) {
    if (section.query && !section.query->photo.file.empty()) {  // a query vector has no file
      files.insert(section.query->photo.file);
    }
    for (const PagePicture& picture : shown_pictures(section)) {
      files.insert(picture.photo.file);
    }
  }
  return {files.begin(), files.end()};
}

int thumbnail_side(std::size_t pictures) {
  constexpr std::size_t kMaxFewPictures = 100;
  constexpr std::size_t kMaxManyPictures = 600;
  return pictures <= kMaxFewPictures ? 320 : pictures <= kMaxManyPictures ? 240 : 176;
}

std::vector<std::size_t> heat_sections(const Page& page, const fs::path& file) {
  std::vector<std::size_t> sections;
  for (std::size_t index = 0; index < page.sections.size(); ++index) {
    const PageSection& section = page.sections[index];
    const auto pictures = shown_pictures(section);
    if (!section.heat.empty() && std::ranges::any_of(pictures, [&](const PagePicture& picture) {
          return picture.photo.file == file;
        })) {
      sections.push_back(index);
    }
  }
  return sections;
}

std::string render_page(const Page& page, const Thumbnails& thumbnails, const fs::path& folder,
                        const HeatThumbnails& heats) {
  return Renderer(page, thumbnails, folder, heats).run();
}

}  // namespace fovea::search
