// Messages, the progress line and the standard descriptors.
#include "cli/terminal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/lines.hpp"

namespace fovea::cli {
namespace {

struct Stderr {
  std::mutex mutex;
  bool as_json = false;
  bool quiet = false;
  bool line_is_open = false;  // the cursor is at the end of the progress line
};

Stderr& standard_error() {
  static Stderr state;
  return state;
}

// "\033[K" erases the rest of the line.
constexpr std::string_view kClear = "\r\033[K";

// Writes each line in a single call, so that output of other programs does not split it. Failures
// are ignored, because there is no other place to report them.
void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return;
    }
  }
}

void write_line(Stderr& state, std::string_view text) {
  std::string line(std::exchange(state.line_is_open, false) ? kClear : "");
  write_all(line.append(text).append("\n"));
}

// Ranges of characters that all or partly take two columns.
constexpr std::pair<std::uint32_t, std::uint32_t> kWide[] = {
    {0x1100, 0x115F},   {0x231A, 0x23FF},   {0x25FD, 0x27BF},   {0x2B00, 0x2BFF},
    {0x2E80, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7FF},   {0xF900, 0xFAFF},
    {0xFE10, 0xFE6F},   {0xFF00, 0xFFE6},   {0x16FE0, 0x18DFF}, {0x1AFF0, 0x1B2FF},
    {0x1D300, 0x1D37F}, {0x1F000, 0x1FAFF}, {0x20000, 0x3FFFD}};

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// The size of the first character of `text`, which is UTF-8 and not empty.
struct Character {
  std::size_t bytes = 1;
  int columns = 1;
};
Character first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  std::uint32_t code = first < 0x80   ? first
                       : first < 0xE0 ? first & 0x1FU
                       : first < 0xF0 ? first & 0xFU
                                      : first & 0x7U;
  Character character;
  for (; character.bytes < text.size() && continues_character(text[character.bytes]);
       ++character.bytes) {
    code = code << 6U | (static_cast<unsigned char>(text[character.bytes]) & 0x3FU);
  }
  character.columns =
      std::ranges::any_of(
          kWide, [code](const auto& range) { return code >= range.first && code <= range.second; })
          ? 2
          : 1;
  return character;
}

}  // namespace

void reserve_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) {
      continue;
    }
    // open() returns the lowest free descriptor, which is `fd`. O_PATH allows neither reading nor
    // writing.
    if (::open("/", O_PATH) != fd) {
      std::_Exit(EXIT_FAILURE);  // no descriptor is available for a message
    }
  }
}

void set_messages(bool as_json, bool quiet) {
  Stderr& state = standard_error();
  const std::lock_guard lock(state.mutex);
  state.as_json = as_json;
  state.quiet = quiet;
}

void say(std::string_view text) {
  print_event("fovea: " + io::printable(text), {{"event", "note"}, {"note", text}});
}

void say_error(std::string_view text, std::string_view environment) {
  Stderr& state = standard_error();
  const std::lock_guard lock(state.mutex);
  if (state.as_json) {
    nlohmann::ordered_json event = {{"event", "error"}, {"error", text}};
    if (!environment.empty()) {
      event["environment"] = environment;
    }
    write_line(state, json_text(event));
    return;
  }
  write_line(state, "fovea: " + io::printable(text));
  if (!environment.empty()) {
    write_line(state, io::printable(environment));
  }
}

void say_error_lines(std::string_view text) {
  Stderr& state = standard_error();
  const std::lock_guard lock(state.mutex);
  text = text.substr(0, text.find_last_not_of(" \n") + 1);
  write_line(state, state.as_json ? json_text({{"event", "error"}, {"error", text}})
                                  : "fovea: " + printable_lines(text));
}

void print_event(std::string_view text, const nlohmann::ordered_json& event) {
  Stderr& state = standard_error();
  const std::lock_guard lock(state.mutex);
  if (!state.quiet && (state.as_json || !text.empty())) {
    write_line(state, state.as_json ? json_text(event) : text);
  }
}

void rewrite_line(std::string_view text) {
  Stderr& state = standard_error();
  const std::lock_guard lock(state.mutex);
  state.line_is_open = true;
  write_all(std::string(kClear).append(text));
}

void clear_line() {
  Stderr& state = standard_error();
  const std::lock_guard lock(state.mutex);
  if (std::exchange(state.line_is_open, false)) {
    write_all(kClear);
  }
}

bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

bool stdout_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}

int terminal_columns() {
  constexpr int kDefaultColumns = 80;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  const char* const columns_variable = std::getenv("COLUMNS");
  const int columns = columns_variable == nullptr ? 0 : std::atoi(columns_variable);
  return columns > 0 ? columns : kDefaultColumns;
}

int text_columns(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    columns += character.columns;
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string_view cut_to_columns(std::string_view text, int columns) {
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const Character character = first_character(text.substr(bytes));
    columns -= character.columns;
    if (columns < 0) {
      break;
    }
    bytes += character.bytes;
  }
  return text.substr(0, bytes);
}

std::string group_digits(std::uint64_t number) {
  constexpr std::size_t kDigitsPerGroup = 3;
  std::string text = std::to_string(number);
  for (std::size_t position = text.size(); position > kDigitsPerGroup;
       position -= kDigitsPerGroup) {
    text.insert(position - kDigitsPerGroup, ",");
  }
  return text;
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return io::printable_json(
      json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace fovea::cli
