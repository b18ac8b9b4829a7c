// SourceIndex: finds lines by newlines, and names by their quoted text.
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

constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;
// The limit on a line in bytes. Names of archive members may be long, but lines by Fovea are
// shorter.
constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

// The number of bytes read per step of a search for a line: a few dozen lines.
constexpr std::size_t kWindowBytes = std::size_t{8} << 10;

// Parses a line with a limit on nesting, so that many brackets cannot overflow the stack.
nlohmann::json parse_line(std::string_view line) {
  constexpr int kMaxDepth = 8;
  return nlohmann::json::parse(
      line, [](int depth, auto, auto&) { return depth < kMaxDepth; }, false);
}

// Returns the "row" of a line; -1 when it has none.
std::int64_t row_of(std::string_view line) {
  const nlohmann::json object = parse_line(line);
  if (!object.is_object()) {
    return -1;
  }
  const auto found = object.find("row");
  return found != object.end() && found->is_number_unsigned() ? found->get<std::int64_t>() : -1;
}

// Returns the "width" or "height" of a line; 0 when it has none, as in lines by other programs.
int side(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) {
    return 0;
  }
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(std::min(found->get<std::uint64_t>(), kMost));
}

}  // namespace

SourceIndex::SourceIndex(std::filesystem::path path, std::int64_t rows)
    : path_(std::move(path)), rows_(rows), ends_(std::make_unique<Ends>()) {
  const io::File file(path_);
  version_ = file.version();
  says_rows_ = says_all_rows(file);
  if (!says_rows_) {
    std::call_once(ends_->once, [&] { find_ends(file); });
    rows_ = static_cast<std::int64_t>(ends_->offsets.size());
  }
}

// Whether a large file begins with row 0 and ends with the last row, so that it need not be read.
bool SourceIndex::says_all_rows(const io::File& file) const {
  if (file.size() <= kBytesAtOnce) {
    return false;
  }
  std::string head(kWindowBytes, '\0');
  std::string tail(kWindowBytes, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(head)));
  file.read_at(file.size() - tail.size(), std::as_writable_bytes(std::span(tail)));
  const std::size_t head_end = head.find('\n');
  const std::size_t tail_begin = tail.rfind('\n', tail.size() - 2);
  return head_end != std::string::npos && tail_begin != std::string::npos && tail.back() == '\n' &&
         row_of(std::string_view(head).substr(0, head_end)) == 0 &&
         row_of(std::string_view(tail).substr(tail_begin)) == rows_ - 1;
}

void SourceIndex::find_ends(const io::File& file) const {
  std::vector<std::uint64_t> found;
  found.reserve(static_cast<std::size_t>(std::max<std::int64_t>(rows_, 0)));
  std::vector<char> buffer(std::min<std::uint64_t>(kBytesAtOnce, file.size()));
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
      found.push_back(offset + position + 1);
    }
  }
  if (file.size() > (found.empty() ? 0 : found.back())) {  // the last line lacks its newline
    found.push_back(file.size());
  }
  ends_->offsets = std::move(found);
}

const std::vector<std::uint64_t>& SourceIndex::ends() const {
  std::call_once(ends_->once, [&] {
    find_ends(io::File(path_, version_));
    if (ends_->offsets.size() != static_cast<std::size_t>(rows_)) {
      const std::size_t lines = std::exchange(ends_->offsets, {}).size();
      fail(
          "{}: has {} lines for {} rows, though its last line is of row {}: lines are missing or "
          "there are too many",
          io::escape(path_.native()), lines, rows_, rows_ - 1);
    }
  });
  return ends_->offsets;
}

// Finds the line of `row` by interpolation between the rows of other lines; nothing when that
// fails.
std::optional<std::string> SourceIndex::look_up(std::int64_t row) const {
  const io::File file(path_, version_);
  // The line of the row begins in [low, high).
  std::uint64_t low = 0;
  std::uint64_t high = file.size();
  std::int64_t low_row = 0;
  std::int64_t high_row = rows_;
  std::string window(kWindowBytes, '\0');
  constexpr int kMaxSteps = 16;  // lines of about the same length need two
  for (int step = 0; step < kMaxSteps && low < high && low_row <= row && row < high_row; ++step) {
    const double share =
        static_cast<double>(row - low_row) / static_cast<double>(high_row - low_row);
    const auto guess = low + static_cast<std::uint64_t>(share * static_cast<double>(high - low));
    const std::uint64_t begin = std::min(guess - std::min<std::uint64_t>(guess, kWindowBytes / 2),
                                         file.size() - kWindowBytes);
    file.read_at(begin, std::as_writable_bytes(std::span(window)));
    std::vector<std::size_t> starts;  // of lines, and the end of the last one
    if (begin == 0) {
      starts.push_back(0);
    }
    for (std::size_t newline = window.find('\n'); newline != std::string::npos;
         newline = window.find('\n', newline + 1)) {
      starts.push_back(newline + 1);
    }
    if (starts.size() < 2) {
      return std::nullopt;  // no whole line
    }
    const auto line = [&](std::size_t index) {
      return std::string_view(window).substr(starts[index], starts[index + 1] - starts[index]);
    };
    const std::size_t last = starts.size() - 2;
    const std::int64_t first_row = row_of(line(0));
    const std::int64_t last_row = row_of(line(last));
    if (first_row < 0 || last_row - first_row != static_cast<std::int64_t>(last)) {
      return std::nullopt;  // some line says no row, or they are out of order
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

std::uint64_t SourceIndex::begin_of(std::int64_t row) const {
  return row == 0 ? 0 : ends()[static_cast<std::size_t>(row) - 1];
}

std::uint64_t SourceIndex::end_of(std::int64_t row) const {
  return ends()[static_cast<std::size_t>(row)];
}

void SourceIndex::refuse(std::int64_t row, std::string_view what) const {
  fail("{}, line {}: {}", io::escape(path_.native()), row + 1, what);
}

IndexEntry SourceIndex::parse(std::string_view line, std::int64_t row) const {
  const nlohmann::json object = parse_line(line);
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
  // After this many lookups, all lines are indexed.
  constexpr int kMaxLookups = 256;
  if (says_rows_ && ends_->lookups.fetch_add(1, std::memory_order_relaxed) < kMaxLookups) {
    if (const std::optional<std::string> line = look_up(row)) {
      return parse(*line, row);
    }
  }
  const std::uint64_t begin = begin_of(row);
  const std::uint64_t bytes = end_of(row) - begin;
  if (bytes > kMaxLineBytes) {
    refuse(row, fmt::format("{} bytes are too many for a line (at most {})", bytes, kMaxLineBytes));
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
        std::upper_bound(ends().begin() + first + 1, ends().end(), begin + kBytesAtOnce);
    const std::int64_t end = after - ends().begin();
    const std::uint64_t bytes = end_of(end - 1) - begin;
    if (bytes > kMaxLineBytes) {
      refuse(first,
             fmt::format("{} bytes are too many for a line (at most {})", bytes, kMaxLineBytes));
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

std::int64_t SourceIndex::row_at(const Lines& lines, std::size_t offset) const {
  return std::upper_bound(ends().begin() + lines.first, ends().end(),
                          begin_of(lines.first) + offset) -
         ends().begin();
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
    const std::string& name, const std::function<bool(const std::string& source)>& is_it) const {
  const std::string ending = io::json_quote(name).substr(1);
  return search([&](const Lines& lines) -> std::int64_t {
    for (std::size_t position = lines.text.find(ending); position != std::string_view::npos;
         position = lines.text.find(ending, position + 1)) {
      if (position > 0 && (lines.text[position - 1] == '/' || lines.text[position - 1] == '"')) {
        const std::int64_t row = row_at(lines, position);
        if (is_it(parse(line(lines, row), row).source)) {
          return row;
        }
      }
    }
    return -1;
  });
}

}  // namespace fovea::search
