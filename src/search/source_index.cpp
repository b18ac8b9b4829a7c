// Lines are found by their newlines, names by their quoted text.
#include "search/source_index.hpp"

#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::search {

SourceIndex::SourceIndex(const std::filesystem::path& path) : file_(path) {
  const std::string_view all = text();
  for (std::size_t at = 0; at < all.size();) {
    starts_.push_back(at);
    const void* end = std::memchr(all.data() + at, '\n', all.size() - at);
    if (end == nullptr) {
      break;
    }
    at = static_cast<std::size_t>(static_cast<const char*>(end) - all.data()) + 1;
  }
}

std::string_view SourceIndex::text() const {
  return {reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()};
}

std::string_view SourceIndex::line(std::int64_t row) const {
  const auto index = static_cast<std::size_t>(row);
  const std::size_t end = index + 1 < starts_.size() ? starts_[index + 1] : text().size();
  return text().substr(starts_[index], end - starts_[index]);
}

std::string SourceIndex::source(std::int64_t row) const {
  // The callback keeps the tree shallow: brackets without end must not exhaust the stack.
  constexpr int kMaxDepth = 8;
  const nlohmann::json object = nlohmann::json::parse(
      line(row), [](int depth, auto, auto&) { return depth < kMaxDepth; }, false);
  const auto where = [&] {
    return fmt::format("{}, line {}", io::escape(file_.path().native()), row + 1);
  };
  if (!object.is_object() || !object.contains("source") || !object["source"].is_string()) {
    fail("{}: not a JSON object with a \"source\"", where());
  }
  if (object.contains("row") && object["row"] != row) {
    fail("{}: \"row\" should be {}, is {}: lines are missing or out of order", where(), row,
         object["row"].dump());
  }
  return object["source"].get<std::string>();
}

std::int64_t SourceIndex::row_at(std::size_t offset) const {
  return std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin() - 1;
}

std::int64_t SourceIndex::find(const std::string& source) const {
  const std::string_view all = text();
  // Almost every line that holds the quoted name is the right one; parsing it settles it.
  const std::string quoted = io::json_quote(source);
  for (std::size_t at = all.find(quoted); at != std::string_view::npos;
       at = all.find(quoted, at + 1)) {
    const std::int64_t row = row_at(at);
    if (this->source(row) == source) {
      return row;
    }
  }
  // Somebody else's JSON may spell the same name differently.
  if (all.find("\\u") != std::string_view::npos || all.find("\\/") != std::string_view::npos) {
    for (std::int64_t row = 0; row < rows(); ++row) {
      if (this->source(row) == source) {
        return row;
      }
    }
  }
  return -1;
}

std::int64_t SourceIndex::find_file(
    const std::string& name, const std::function<bool(const std::string& source)>& is_it) const {
  const std::string_view all = text();
  const std::string ending = io::json_quote(name).substr(1);
  for (std::size_t at = all.find(ending); at != std::string_view::npos;
       at = all.find(ending, at + 1)) {
    if (at > 0 && (all[at - 1] == '/' || all[at - 1] == '"')) {
      if (const std::int64_t row = row_at(at); is_it(source(row))) {
        return row;
      }
    }
  }
  return -1;
}

}  // namespace fovea::search
