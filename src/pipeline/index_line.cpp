// Formats JSON lines directly, because their spacing is part of the format, and parses them with
// nlohmann-json.
#include "pipeline/index_line.hpp"

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/json.hpp"
#include "io/text.hpp"
#include "pipeline/json_fields.hpp"

namespace fovea::pipeline {
namespace {

using nlohmann::json;

json parse_object(std::string_view text) {
  // A name of 1 MiB, the maximum in a list, is shorter even when all its bytes are escaped.
  constexpr std::size_t kMaxBytes = std::size_t{8} << 20;
  if (text.size() > kMaxBytes) {
    fail("the line has {} bytes, more than the limit of {}", text.size(), kMaxBytes);
  }
  // The callback limits the depth, so that a line of 10^6 brackets does not exhaust the stack.
  constexpr int kMaxDepth = 16;
  const auto is_depth_allowed = [](int depth, json::parse_event_t /*event*/, json& /*parsed*/) {
    return depth < kMaxDepth;
  };
  json object = json::parse(text, is_depth_allowed, false);
  if (!object.is_object()) {
    fail("not a JSON object");
  }
  return object;
}

PatchGrid read_patches(const json& object) {
  constexpr int kMaxSide = 1 << 16;
  const auto patches = object.find("patches");
  if (patches == object.end()) {
    return {};
  }
  const auto is_side = [](const json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
           value.get<std::uint64_t>() <= kMaxSide;
  };
  if (!patches->is_array() || patches->size() != 2 || !is_side((*patches)[0]) ||
      !is_side((*patches)[1])) {
    fail("\"patches\" is not a list of two numbers from 1 to {}", kMaxSide);
  }
  return {.height = (*patches)[0].get<int>(), .width = (*patches)[1].get<int>()};
}

}  // namespace

std::string format_index_line(const IndexLine& line) {
  const std::string file = line.file ? fmt::format(", \"bytes\": {}, \"modified_ns\": {}",
                                                   line.file->bytes, line.file->modified_ns)
                                     : "";
  const std::string patches =
      line.patches == PatchGrid{}
          ? ""
          : fmt::format(", \"patches\": [{}, {}]", line.patches.height, line.patches.width);
  const std::string sum =
      line.sha256.empty() ? "" : fmt::format(", \"sha256\": \"{}\"", line.sha256);
  return fmt::format("{{\"row\": {}, \"source\": {}, \"width\": {}, \"height\": {}{}{}{}{}}}\n",
                     line.row, io::json_quote(io::escape(line.source)), line.width, line.height,
                     patches, file, sum, line.lost_range ? ", \"lost_range\": true" : "");
}

IndexLine parse_index_line(std::string_view text) {
  constexpr auto kMaxSide = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  const json object = parse_object(text);
  return {.row = read_count(object, "row"),
          .source = io::unescape(read_text(object, "source")),
          .width = static_cast<int>(read_count(object, "width", kMaxSide)),
          .height = static_cast<int>(read_count(object, "height", kMaxSide)),
          .file = io::read_stamp(object),
          .sha256 = object.contains("sha256") ? read_text(object, "sha256") : "",
          .lost_range = object.contains("lost_range") && read_flag(object, "lost_range"),
          .patches = read_patches(object)};
}

std::string format_error_line(std::string_view source, std::string_view error) {
  const std::string text = io::is_utf8(error) ? std::string(error) : io::escape(error);
  return fmt::format("{{\"source\": {}, \"error\": {}}}\n", io::json_quote(io::escape(source)),
                     io::json_quote(text));
}

std::string parse_error_source(std::string_view text) {
  return io::unescape(read_text(parse_object(text), "source"));
}

std::string with_error_source(std::string_view text, std::string_view source) {
  return format_error_line(source, read_text(parse_object(text), "error"));
}

std::string parse_input_line(std::string_view text) {
  const json object = parse_object(text);
  std::string name;
  int key_count = 0;
  for (const char* key : {"path", "image", "source"}) {
    if (object.contains(key)) {
      ++key_count;
      name = read_text(object, key);
      if (std::string_view(key) == "source") {
        name = io::unescape(name);
      }
    }
  }
  if (key_count == 0) {
    fail("the line has none of the keys \"path\", \"image\" and \"source\"");
  }
  if (key_count > 1) {
    fail("the line has {} of the keys \"path\", \"image\" and \"source\"; expected one", key_count);
  }
  if (name.empty() || name.find('\0') != std::string::npos) {
    fail("the name of the image is empty or contains a NUL byte");
  }
  return name;
}

}  // namespace fovea::pipeline
