// Parses small JSON files by nlohmann's parser with a callback that enforces limits.
#include "io/json.hpp"

#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::io {
namespace {

constexpr int kMaxDepth = 32;
constexpr std::size_t kMaxOrderedKeys =
    2000;  // ordered_json compares each key with all earlier ones

template <typename Json>
Json parse_checked(std::string_view text, std::string_view file, std::size_t max_keys) {
  check_json_text(text, file);
  std::vector<std::set<std::string>> keys;  // of every open object
  const auto check_event = [&](int depth, typename Json::parse_event_t event, Json& parsed) {
    if (depth >= kMaxDepth) {
      fail("{}: JSON nested more than {} levels deep", file, kMaxDepth);
    }
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.template get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        fail("{}: key \"{}\" appears twice in one object", file, escape(key));
      }
      if (keys.back().size() > max_keys) {
        fail("{}: an object has more than {} keys", file, max_keys);
      }
    }
    return true;
  };
  try {
    return Json::parse(text, check_event);
  } catch (const typename Json::parse_error& error) {
    fail("{}: not JSON: error at byte {}", file, error.byte == 0 ? 0 : error.byte - 1);
  } catch (const typename Json::exception& error) {  // numbers out of range
    fail("{}: not usable JSON: {}", file, error.what());
  }
}

}  // namespace

void check_json_text(std::string_view text, std::string_view file) {
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    fail("{}: not JSON: zero byte at byte {}", file, zero);
  }
  if (text.starts_with("\xef\xbb\xbf")) {
    fail("{}: not JSON: starts with a byte order mark", file);
  }
}

nlohmann::json parse_json_object(std::string_view text, std::string_view file) {
  if (text.size() > kMaxJsonBytes) {
    fail("{}: the file is too large: {} bytes (at most {})", file, text.size(), kMaxJsonBytes);
  }
  nlohmann::json parsed = parse_checked<nlohmann::json>(text, file, kMaxJsonBytes);
  if (!parsed.is_object()) {
    fail("{}: expected a JSON object, found {}", file, parsed.type_name());
  }
  return parsed;
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view file) {
  return parse_checked<nlohmann::ordered_json>(text, file, kMaxOrderedKeys);
}

nlohmann::ordered_json try_parse_ordered_json(std::string_view text) {
  try {
    return parse_ordered_json(text, "its text");
  } catch (const Error&) {
    return nlohmann::ordered_json::value_t::discarded;
  }
}

std::optional<FileStamp> read_stamp(const nlohmann::json& object) {
  const auto bytes = object.find("bytes");
  const auto modified = object.find("modified_ns");
  if (bytes == object.end() || modified == object.end() || !bytes->is_number_integer() ||
      !modified->is_number_integer()) {
    return std::nullopt;  // as in older indexes, and in those of other programs
  }
  return FileStamp{bytes->get<std::int64_t>(), modified->get<std::int64_t>()};
}

}  // namespace fovea::io
