// Formats photos as lines, JSON and parts of pages. Dates are local in text, UTC in JSON.
#include "cli/similar_report.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include <fmt/format.h>

#include "cli/json_output.hpp"
#include "cli/terminal.hpp"

namespace fovea::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string format_time(std::int64_t seconds, bool utc, const char* format) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  if ((utc ? ::gmtime_r(&time, &parts) : ::localtime_r(&time, &parts)) == nullptr) {
    return "";
  }
  constexpr std::size_t kMaxDateBytes = 64;
  std::array<char, kMaxDateBytes> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

// Returns the date and time, to the minute, when the photo was taken or, if that is unknown, when
// its file was modified.
std::string date_text(const Photo& photo) {
  constexpr std::size_t kMinuteLength = 16;  // length of "2024-05-01 12:30"
  if (!photo.captured.empty()) {
    return photo.captured.substr(0, kMinuteLength);
  }
  return photo.modified ? format_time(*photo.modified, false, "%Y-%m-%d %H:%M") : "";
}

std::string size_text(const Photo& photo, std::string_view times) {
  return photo.width > 0 ? fmt::format("{}{}{}", photo.width, times, photo.height) : "";
}

std::string_view or_dash(std::string_view text) {
  return text.empty() ? "-" : text;
}

}  // namespace

std::string count_text(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string bytes_text(std::int64_t bytes) {
  constexpr double kUnitFactor = 1000;
  if (bytes < static_cast<std::int64_t>(kUnitFactor)) {
    return fmt::format("{} B", bytes);
  }
  auto value = static_cast<double>(bytes);
  std::string_view unit;
  for (const std::string_view larger : {"kB", "MB", "GB", "TB"}) {
    constexpr double kRoundsUp = 999.95;
    if (!unit.empty() && value < kRoundsUp) {
      break;
    }
    value /= kUnitFactor;
    unit = larger;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string PhotoReport::output_name(const Photo& photo) const {
  return outputs_.size() > 1 && photo.row >= 0 ? source_name(outputs_[photo.output].native()) : "";
}

std::string PhotoReport::heading(std::string_view first) {
  return fmt::format("{}  {:9}  {:>11}  {:>8}  {:16}  {}\n", first, "score", "pixels", "file",
                     "date", "photo");
}

std::string PhotoReport::line(std::string_view first, std::optional<double> score,
                              const Photo& photo, std::string_view note) const {
  std::string notes = output_name(photo).empty() ? "" : "in " + output_name(photo);
  notes += (notes.empty() || note.empty() ? "" : ", ") + std::string(note);
  return fmt::format("{}  {:9}  {:>11}  {:>8}  {:16}  {}{}\n", first,
                     score ? fmt::format("{:.6f}", *score) : "", or_dash(size_text(photo, "x")),
                     photo.bytes ? bytes_text(*photo.bytes) : "-", or_dash(date_text(photo)),
                     printable_name(photo.source),
                     notes.empty() ? "" : fmt::format("  ({})", io::printable(notes)));
}

Json PhotoReport::json(const Photo& photo, double score) const {
  Json item{{"row", photo.row}, {"score", score}, {"source", photo.source}};
  if (outputs_.size() > 1) {
    item["in"] = output_name(photo);
  }
  item["width"] = or_null(photo.width > 0, photo.width);
  item["height"] = or_null(photo.height > 0, photo.height);
  item["bytes"] = or_null(photo.bytes.has_value(), photo.bytes.value_or(0));
  item["modified"] = or_null(photo.modified.has_value(),
                             format_time(photo.modified.value_or(0), true, "%Y-%m-%dT%H:%M:%SZ"));
  item["captured"] = or_null(!photo.captured.empty(), photo.captured);
  item["url"] = or_null(photo.error.empty(), file_url(photo));
  item["error"] = or_null(!photo.error.empty(), photo.error);
  return item;
}

Json PhotoReport::json(const DuplicateGroup& group) const {
  Json kept_item = json(group.kept, 1);
  kept_item["keep"] = true;
  Json members = Json::array({std::move(kept_item)});
  for (const Duplicate& member : group.members) {
    Json item = json(member.photo, member.score);
    item["keep"] = false;
    item["class"] = class_name(member.likeness);
    item["same_as"] = or_null(member.same_as >= 0, member.same_as);
    item["may_go"] = member.obstacle.empty();
    item["obstacle"] = or_null(!member.obstacle.empty(), member.obstacle);
    members.push_back(std::move(item));
  }
  return {{"lowest_score", group.lowest_score}, {"members", std::move(members)}};
}

PagePicture PhotoReport::picture(const Photo& photo, std::optional<double> score) const {
  PagePicture picture{
      .photo = photo, .score = score, .is_kept = false, .is_copy = false, .label = {}, .facts = {}};
  std::string size = size_text(photo, " \u00d7 ");
  if (photo.bytes) {
    size += (size.empty() ? "" : " \u00b7 ") + bytes_text(*photo.bytes);
  }
  if (!size.empty()) {
    picture.facts.push_back(std::move(size));
  }
  if (const std::string date = date_text(photo); !date.empty()) {
    picture.facts.push_back((photo.captured.empty() ? "file of " : "taken ") + date);
  }
  if (const std::string output = output_name(photo); !output.empty()) {
    picture.facts.push_back("in " + output);
  }
  return picture;
}

const char* class_name(Likeness likeness) {
  switch (likeness) {
    case Likeness::kIdenticalFile:
      return "identical-files";
    case Likeness::kIdenticalPixels:
      return "identical-pixels";
    case Likeness::kSimilar:
      break;
  }
  return "similar";
}

std::string original_name(const DuplicateGroup& group, const Duplicate& member) {
  const auto original = std::ranges::find(group.members, member.same_as,
                                          [](const Duplicate& other) { return other.photo.row; });
  return original == group.members.end() ? "" : original->photo.source;
}

PageSection PhotoReport::section(const DuplicateGroup& group, std::size_t number) const {
  PageSection section{
      fmt::format("Group {}", number),
      fmt::format("{}, lowest score of a pair {:.6f}",
                  count_text(static_cast<std::int64_t>(group.members.size()) + 1, "photo"),
                  group.lowest_score),
      std::nullopt,
      {picture(group.kept, std::nullopt)}};
  section.pictures.front().is_kept = true;
  section.pictures.front().label = "keep";
  for (const Duplicate& member : group.members) {
    PagePicture item_picture = picture(member.photo, member.score);
    item_picture.label = to_string(member.likeness);
    item_picture.is_copy = member.same_as >= 0;
    if (const std::string original = original_name(group, member); !original.empty()) {
      item_picture.facts.push_back("copy of " + original);
    }
    if (!member.obstacle.empty()) {
      item_picture.facts.push_back("stays: " + member.obstacle);
    }
    section.pictures.push_back(std::move(item_picture));
  }
  return section;
}

}  // namespace fovea::cli
