// Finds lines by their newlines, and names by their quoted text.
#include "search/source_index.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/json.hpp"
#include "io/text.hpp"

namespace fovea::search {
namespace {

constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;
// The name of an archive's member may be long, but no line that Fovea writes comes near this limit.
constexpr std::size_t kMostLineBytes = std::size_t{16} << 20;

// A "width" or "height"; 0 when the line has none, as other programs' lines may.
int side(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) {
    return 0;
  }
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(std::min(found->get<std::uint64_t>(), kMost));
}

}  // namespace

SourceIndex::SourceIndex(std::filesystem::path path) : path_(std::move(path)) {
  const io::File file(path_);
  version_ = file.version();
  std::vector<char> buffer(std::min<std::uint64_t>(kBytesAtOnce, file.size()));
  for (std::uint64_t offset = 0; offset < file.size(); offset += buffer.size()) {
    const std::span part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), file.size() - offset));
    file.read_at(offset, std::as_writable_bytes(part));
    for (std::size_t at = 0; at < part.size(); ++at) {
      const void* newline = std::memchr(part.data() + at, '\n', part.size() - at);
      if (newline == nullptr) {
        break;
      }
      at = static_cast<std::size_t>(static_cast<const char*>(newline) - part.data());
      ends_.push_back(offset + at + 1);
    }
  }
  if (file.size() > (ends_.empty() ? 0 : ends_.back())) {  // the last line lacks its newline
    ends_.push_back(file.size());
  }
}

std::uint64_t SourceIndex::begin_of(std::int64_t row) const {
  return row == 0 ? 0 : ends_[static_cast<std::size_t>(row) - 1];
}

std::uint64_t SourceIndex::end_of(std::int64_t row) const {
  return ends_[static_cast<std::size_t>(row)];
}

void SourceIndex::refuse(std::int64_t row, std::string_view what) const {
  fail("{}, line {}: {}", io::escape(path_.native()), row + 1, what);
}

IndexEntry SourceIndex::parse(std::string_view line, std::int64_t row) const {
  // The callback keeps the tree shallow: brackets without end must not exhaust the stack.
  constexpr int kMaxDepth = 8;
  const nlohmann::json object =
      nlohmann::json::parse(line, [](int depth, auto, auto&) { return depth < kMaxDepth; }, false);
  if (!object.is_object() || !object.contains("source") || !object["source"].is_string()) {
    refuse(row, "expected a JSON object with a \"source\"");
  }
  if (object.contains("row") && object["row"] != row) {
    refuse(row, fmt::format("\"row\" is {1}, expected {0}: lines are missing or out of order", row,
                            object["row"].dump()));
  }
  IndexEntry entry{object["source"].get<std::string>(), side(object, "width"),
                   side(object, "height"), io::read_stamp(object)};
  try {
    (void)io::unescape(entry.source);
  } catch (const Error& error) {
    refuse(row, fmt::format("\"source\": {}", error.what()));
  }
  return entry;
}

IndexEntry SourceIndex::entry(std::int64_t row) const {
  const std::uint64_t begin = begin_of(row);
  const std::uint64_t bytes = end_of(row) - begin;
  if (bytes > kMostLineBytes) {
    refuse(row,
           fmt::format("{} bytes are too many for a line (at most {})", bytes, kMostLineBytes));
  }
  std::string line(bytes, '\0');
  io::File(path_, version_).read_at(begin, std::as_writable_bytes(std::span(line)));
  return parse(line, row);
}

// Calls `look` with one group of lines after the other until it returns a row; else returns -1.
std::int64_t SourceIndex::search(const std::function<std::int64_t(const Lines&)>& look) const {
  const io::File file(path_, version_);
  std::string text;
  for (std::int64_t first = 0; first < rows();) {
    const std::uint64_t begin = begin_of(first);
    const auto after =
        std::upper_bound(ends_.begin() + first + 1, ends_.end(), begin + kBytesAtOnce);
    const std::int64_t end = after - ends_.begin();
    const std::uint64_t bytes = end_of(end - 1) - begin;
    if (bytes > kMostLineBytes) {
      refuse(first,
             fmt::format("{} bytes are too many for a line (at most {})", bytes, kMostLineBytes));
    }
    text.resize(bytes);
    file.read_at(begin, std::as_writable_bytes(std::span(text)));
    if (const std::int64_t row = look({text, first, end - first}); row >= 0) {
      return row;
    }
    first = end;
  }
  return -1;
}

std::string_view SourceIndex::line(const Lines& lines, std::int64_t row) const {
  const std::uint64_t begin = begin_of(row);
  return lines.text.substr(begin - begin_of(lines.first), end_of(row) - begin);
}

std::int64_t SourceIndex::row_at(const Lines& lines, std::size_t at) const {
  return std::upper_bound(ends_.begin() + lines.first, ends_.end(), begin_of(lines.first) + at) -
         ends_.begin();
}

std::int64_t SourceIndex::find(const std::string& source) const {
  const std::string quoted = io::json_quote(source);
  return search([&](const Lines& lines) -> std::int64_t {
    // JSON of other programs may spell the same name differently.
    const auto spelled = [](std::string_view text) {
      return text.find("\\u") != std::string_view::npos ||
             text.find("\\/") != std::string_view::npos;
    };
    if (spelled(lines.text)) {
      for (std::int64_t row = lines.first; row < lines.first + lines.count; ++row) {
        const std::string_view text = line(lines, row);
        if ((spelled(text) || text.find(quoted) != std::string_view::npos) &&
            parse(text, row).source == source) {
          return row;
        }
      }
      return -1;
    }
    // Almost every line that holds the quoted name is the right one; parsing the line decides.
    for (std::size_t at = lines.text.find(quoted); at != std::string_view::npos;
         at = lines.text.find(quoted, at + 1)) {
      const std::int64_t row = row_at(lines, at);
      if (parse(line(lines, row), row).source == source) {
        return row;
      }
    }
    return -1;
  });
}

std::int64_t SourceIndex::find_file(
    const std::string& name, const std::function<bool(const std::string& source)>& is_it) const {
  const std::string ending = io::json_quote(name).substr(1);
  return search([&](const Lines& lines) -> std::int64_t {
    for (std::size_t at = lines.text.find(ending); at != std::string_view::npos;
         at = lines.text.find(ending, at + 1)) {
      if (at > 0 && (lines.text[at - 1] == '/' || lines.text[at - 1] == '"')) {
        const std::int64_t row = row_at(lines, at);
        if (is_it(parse(line(lines, row), row).source)) {
          return row;
        }
      }
    }
    return -1;
  });
}

}  // namespace fovea::search
