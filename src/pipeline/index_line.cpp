// JSON lines are written by hand, because their spacing is part of the format, and read by
// nlohmann-json.
#include "pipeline/index_line.hpp"

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::pipeline {
namespace {

using nlohmann::json;

json parse_object(std::string_view text) {
  // The callback keeps the tree shallow: a line of 10^6 brackets must not exhaust the stack.
  constexpr int kMaxDepth = 16;
  const auto shallow = [](int depth, json::parse_event_t /*event*/, json& /*parsed*/) {
    return depth < kMaxDepth;
  };
  json object = json::parse(text, shallow, false);
  if (!object.is_object()) {
    fail("not a JSON object");
  }
  return object;
}

std::uint64_t read_number(const json& object, const char* key, std::uint64_t limit) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() ||
      found->get<std::uint64_t>() > limit) {
    fail("\"{}\" is missing or not a valid number", key);
  }
  return found->get<std::uint64_t>();
}

const std::string& read_string(const json& value, const char* key) {
  if (!value.is_string()) {
    fail("\"{}\" is not a string", key);
  }
  return value.get_ref<const std::string&>();
}

}  // namespace

std::string format_index_line(const IndexLine& line) {
  return fmt::format("{{\"row\": {}, \"source\": {}, \"width\": {}, \"height\": {}}}\n", line.row,
                     io::json_quote(io::escape(line.source)), line.width, line.height);
}

IndexLine parse_index_line(std::string_view text) {
  constexpr auto kMaxSide = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  const json object = parse_object(text);
  const auto source = object.find("source");
  if (source == object.end()) {
    fail("\"source\" is missing");
  }
  IndexLine line;
  line.row = read_number(object, "row", std::numeric_limits<std::uint64_t>::max());
  line.source = io::unescape(read_string(*source, "source"));
  line.width = static_cast<int>(read_number(object, "width", kMaxSide));
  line.height = static_cast<int>(read_number(object, "height", kMaxSide));
  return line;
}

std::string format_error_line(std::string_view source, std::string_view error) {
  const std::string text = io::is_utf8(error) ? std::string(error) : io::escape(error);
  return fmt::format("{{\"source\": {}, \"error\": {}}}\n", io::json_quote(io::escape(source)),
                     io::json_quote(text));
}

std::string parse_error_source(std::string_view text) {
  const json object = parse_object(text);
  const auto source = object.find("source");
  if (source == object.end()) {
    fail("\"source\" is missing");
  }
  return io::unescape(read_string(*source, "source"));
}

std::string parse_input_line(std::string_view text) {
  const json object = parse_object(text);
  std::string name;
  int found = 0;
  for (const char* key : {"path", "image", "source"}) {
    const auto value = object.find(key);
    if (value != object.end()) {
      ++found;
      name = read_string(*value, key);
      if (std::string_view(key) == "source") {
        name = io::unescape(name);
      }
    }
  }
  if (found == 0) {
    fail("has none of the keys \"path\", \"image\" and \"source\"");
  }
  if (found > 1) {
    fail("has {} of the keys \"path\", \"image\" and \"source\"; expected one", found);
  }
  if (name.empty() || name.find('\0') != std::string::npos) {
    fail("the name of the image is empty or holds a NUL byte");
  }
  return name;
}

}  // namespace fovea::pipeline
