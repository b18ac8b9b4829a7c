// SourceIndex: finds the lines of rows by interpolation search, and names by their quoted text.
#include "search/source_index.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/json.hpp"
#include "io/text.hpp"

namespace fovea::search {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;
// The maximum size of a line in bytes. Names of archive members may be long, but lines that Fovea
// writes are shorter.
constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

// The number of bytes per step of the search for a line, which hold a few dozen lines.
constexpr std::size_t kWindowBytes = std::size_t{8} << 10;

// Parses a line, with a limit on the depth of nesting so that brackets cannot overflow the stack.
nlohmann::json parse_line(std::string_view line) {
  constexpr int kMaxDepth = 8;
  return nlohmann::json::parse(
      line, [](int depth, auto, auto&) { return depth < kMaxDepth; }, false);
}

// Returns the "row" of a line; -1 when it has none.
std::int64_t parse_row_number(std::string_view line) {
  const nlohmann::json object = parse_line(line);
  if (!object.is_object()) {
    return -1;
  }
  const auto row = object.find("row");
  return row != object.end() && row->is_number_unsigned() ? row->get<std::int64_t>() : -1;
}

// Returns the "width" or "height" of a line; 0 when it has none, as in indexes of other programs.
int parse_side(const nlohmann::json& object, const char* key) {
  const auto value = object.find(key);
  if (value == object.end() || !value->is_number_unsigned()) {
    return 0;
  }
  constexpr std::uint64_t kMaxSide = std::numeric_limits<int>::max();
  return static_cast<int>(std::min(value->get<std::uint64_t>(), kMaxSide));
}

}  // namespace

SourceIndex::SourceIndex(std::filesystem::path path, std::int64_t rows)
    : path_(std::move(path)), rows_(rows), line_ends_(std::make_unique<LineEnds>()) {
  const io::File file(path_);
  version_ = file.version();
  has_row_numbers_ = check_row_numbers(file);
  if (!has_row_numbers_) {
    std::call_once(line_ends_->once, [&] { find_line_ends(file); });
    rows_ = static_cast<std::int64_t>(line_ends_->offsets.size());
  }
}

// Returns whether a large file begins with row 0 and ends with the last row, and need not be read.
bool SourceIndex::check_row_numbers(const io::File& file) const {
  if (file.size() <= kReadBytes) {
    return false;
  }
  std::string head(kWindowBytes, '\0');
  std::string tail(kWindowBytes, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(head)));
  file.read_at(file.size() - tail.size(), std::as_writable_bytes(std::span(tail)));
  const std::size_t head_end = head.find('\n');
  const std::size_t tail_begin = tail.rfind('\n', tail.size() - 2);
  return head_end != std::string::npos && tail_begin != std::string::npos && tail.back() == '\n' &&
         parse_row_number(std::string_view(head).substr(0, head_end)) == 0 &&
         parse_row_number(std::string_view(tail).substr(tail_begin)) == rows_ - 1;
}

void SourceIndex::find_line_ends(const io::File& file) const {
  std::vector<std::uint64_t> offsets;
  offsets.reserve(static_cast<std::size_t>(std::max<std::int64_t>(rows_, 0)));
  std::vector<char> buffer(std::min<std::uint64_t>(kReadBytes, file.size()));
  for (std::uint64_t offset = 0; offset < file.size(); offset += buffer.size()) {
    const std::span part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), file.size() - offset));
    file.read_at(offset, std::as_writable_bytes(part));
    for (std::size_t position = 0; position < part.size(); ++position) {
      const void* newline = std::memchr(part.data() + position, '\n', part.size() - position);
      if (newline == nullptr) {
        break;
      }
      position = static_cast<std::size_t>(static_cast<const char*>(newline) - part.data());
      offsets.push_back(offset + position + 1);
    }
  }
  if (file.size() > (offsets.empty() ? 0 : offsets.back())) {  // the last line has no newline
    offsets.push_back(file.size());
  }
  line_ends_->offsets = std::move(offsets);
}

const std::vector<std::uint64_t>& SourceIndex::line_ends() const {
  std::call_once(line_ends_->once, [&] {
    find_line_ends(io::File(path_, version_));
    if (line_ends_->offsets.size() != static_cast<std::size_t>(rows_)) {
      const std::size_t lines = std::exchange(line_ends_->offsets, {}).size();
      fail(
          "{}: the index has {} lines for {} rows, although its last line is for row {}: lines are "
          "missing or repeated",
          io::escape(path_.native()), lines, rows_, rows_ - 1);
    }
  });
  return line_ends_->offsets;
}

// Finds the line of `row` by interpolation search; returns nullopt when that fails.
std::optional<std::string> SourceIndex::look_up(std::int64_t row) const {
  const io::File file(path_, version_);
  // The line of the row begins in [low, high).
  std::uint64_t low = 0;
  std::uint64_t high = file.size();
  std::int64_t low_row = 0;
  std::int64_t high_row = rows_;
  std::string window(kWindowBytes, '\0');
  constexpr int kMaxSteps = 16;  // two suffice when lines have about the same length
  for (int step = 0; step < kMaxSteps && low < high && low_row <= row && row < high_row; ++step) {
    const double share =
        static_cast<double>(row - low_row) / static_cast<double>(high_row - low_row);
    const auto guess = low + static_cast<std::uint64_t>(share * static_cast<double>(high - low));
    const std::uint64_t begin = std::min(guess - std::min<std::uint64_t>(guess, kWindowBytes / 2),
                                         file.size() - kWindowBytes);
    file.read_at(begin, std::as_writable_bytes(std::span(window)));
    std::vector<std::size_t> starts;  // the starts of lines, and the end of the last line
    if (begin == 0) {
      starts.push_back(0);
    }
    for (std::size_t newline = window.find('\n'); newline != std::string::npos;
         newline = window.find('\n', newline + 1)) {
      starts.push_back(newline + 1);
    }
    if (starts.size() < 2) {
      return std::nullopt;  // the window has no complete line
    }
    const auto line = [&](std::size_t index) {
      return std::string_view(window).substr(starts[index], starts[index + 1] - starts[index]);
    };
    const std::size_t last = starts.size() - 2;
    const std::int64_t first_row = parse_row_number(line(0));
    const std::int64_t last_row = parse_row_number(line(last));
    if (first_row < 0 || last_row - first_row != static_cast<std::int64_t>(last)) {
      return std::nullopt;  // lines lack their row numbers or are out of order
    }
    if (row < first_row) {
      high = begin + starts.front();
      high_row = first_row;
    } else if (row > last_row) {
      low = begin + starts.back();
      low_row = last_row + 1;
    } else {
      return std::string(line(static_cast<std::size_t>(row - first_row)));
    }
  }
  return std::nullopt;
}

std::uint64_t SourceIndex::line_begin(std::int64_t row) const {
  return row == 0 ? 0 : line_ends()[static_cast<std::size_t>(row) - 1];
}

std::uint64_t SourceIndex::line_end(std::int64_t row) const {
  return line_ends()[static_cast<std::size_t>(row)];
}

void SourceIndex::fail_at_line(std::int64_t row, std::string_view problem) const {
  fail("{}, line {}: {}", io::escape(path_.native()), row + 1, problem);
}

IndexEntry SourceIndex::parse(std::string_view line, std::int64_t row) const {
  const nlohmann::json object = parse_line(line);
  if (!object.is_object() || !object.contains("source") || !object["source"].is_string()) {
    fail_at_line(row, "expected a JSON object with a \"source\"");
  }
  if (object.contains("row") && object["row"] != row) {
    fail_at_line(row, fmt::format("\"row\" is {1}, expected {0}: lines are missing or out of order",
                                  row, object["row"].dump()));
  }
  IndexEntry entry{object["source"].get<std::string>(), parse_side(object, "width"),
                   parse_side(object, "height"), io::read_stamp(object)};
  try {
    (void)io::unescape(entry.source);
  } catch (const Error& error) {
    fail_at_line(row, fmt::format("\"source\": {}", error.what()));
  }
  return entry;
}

IndexEntry SourceIndex::entry(std::int64_t row) const {
  // After this many lookups, the positions of all lines are stored.
  constexpr int kMaxLookups = 256;
  if (has_row_numbers_ &&
      line_ends_->lookups.fetch_add(1, std::memory_order_relaxed) < kMaxLookups) {
    if (const std::optional<std::string> line = look_up(row)) {
      return parse(*line, row);
    }
  }
  const std::uint64_t begin = line_begin(row);
  const std::uint64_t bytes = line_end(row) - begin;
  if (bytes > kMaxLineBytes) {
    fail_at_line(
        row, fmt::format("the line has {} bytes, more than the limit of {}", bytes, kMaxLineBytes));
  }
  std::string line(bytes, '\0');
  io::File(path_, version_).read_at(begin, std::as_writable_bytes(std::span(line)));
  return parse(line, row);
}

// Calls `find_row` with groups of consecutive lines until it returns a row; returns -1 otherwise.
std::int64_t SourceIndex::search(const std::function<std::int64_t(const Lines&)>& find_row) const {
  const io::File file(path_, version_);
  std::string text;
  for (std::int64_t first = 0; first < rows();) {
    const std::uint64_t begin = line_begin(first);
    const auto group_end =
        std::upper_bound(line_ends().begin() + first + 1, line_ends().end(), begin + kReadBytes);
    const std::int64_t end = group_end - line_ends().begin();
    const std::uint64_t bytes = line_end(end - 1) - begin;
    if (bytes > kMaxLineBytes) {
      fail_at_line(first, fmt::format("the line has {} bytes, more than the limit of {}", bytes,
                                      kMaxLineBytes));
    }
    text.resize(bytes);
    file.read_at(begin, std::as_writable_bytes(std::span(text)));
    if (const std::int64_t row = find_row({text, first, end - first}); row >= 0) {
      return row;
    }
    first = end;
  }
  return -1;
}

std::string_view SourceIndex::line(const Lines& lines, std::int64_t row) const {
  const std::uint64_t begin = line_begin(row);
  return lines.text.substr(begin - line_begin(lines.first), line_end(row) - begin);
}

std::int64_t SourceIndex::row_at(const Lines& lines, std::size_t offset) const {
  return std::upper_bound(line_ends().begin() + lines.first, line_ends().end(),
                          line_begin(lines.first) + offset) -
         line_ends().begin();
}

std::int64_t SourceIndex::find(const std::string& source) const {
  const std::string quoted = io::json_quote(source);
  return search([&](const Lines& lines) -> std::int64_t {
    // Other programs may use these escapes in a name, so that its quoted text differs.
    const auto has_escapes = [](std::string_view text) {
      return text.find("\\u") != std::string_view::npos ||
             text.find("\\/") != std::string_view::npos;
    };
    if (has_escapes(lines.text)) {
      for (std::int64_t row = lines.first; row < lines.first + lines.count; ++row) {
        const std::string_view text = line(lines, row);
        if ((has_escapes(text) || text.find(quoted) != std::string_view::npos) &&
            parse(text, row).source == source) {
          return row;
        }
      }
      return -1;
    }
    // The quoted name may also occur elsewhere in a line, so each match is verified by parsing it.
    for (std::size_t position = lines.text.find(quoted); position != std::string_view::npos;
         position = lines.text.find(quoted, position + 1)) {
      const std::int64_t row = row_at(lines, position);
      if (parse(line(lines, row), row).source == source) {
        return row;
      }
    }
    return -1;
  });
}

std::int64_t SourceIndex::find_file(
    const std::string& name, const std::function<bool(const std::string& source)>& matches) const {
  const std::string quoted_end = io::json_quote(name).substr(1);
  return search([&](const Lines& lines) -> std::int64_t {
    for (std::size_t position = lines.text.find(quoted_end); position != std::string_view::npos;
         position = lines.text.find(quoted_end, position + 1)) {
      if (position > 0 && (lines.text[position - 1] == '/' || lines.text[position - 1] == '"')) {
        const std::int64_t row = row_at(lines, position);
        if (matches(parse(line(lines, row), row).source)) {
          return row;
        }
      }
    }
    return -1;
  });
}

}  // namespace fovea::search
