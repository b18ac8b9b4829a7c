// Output of the program. Control characters in external text are escaped before it reaches a
// terminal, and everything that a running command prints on stderr goes through this file, so that
// messages, the progress line and JSON never mix. (Usage errors are printed before any command
// runs.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "io/text.hpp"

namespace fovea::cli {

/// Opens those of the descriptors 0 to 2 that are closed, so that no file opened later becomes the
/// standard output or error. Reads and writes of such a descriptor still fail.
void reserve_standard_descriptors();

/// Sets the format of messages on stderr: text, or one JSON object per line. With `quiet`, only
/// say_error() prints.
void set_messages(bool as_json, bool quiet);

/// Prints "fovea: <text>" on stderr as one line, or in JSON the event "note".
void say(std::string_view text);
/// Prints the error that ends the program and, unless it is "", the note on options set by
/// environment variables; in JSON the event "error".
void say_error(std::string_view text, std::string_view environment);
/// Prints `text`, which must be printable, as a line (nothing if it is empty), or `event` if
/// messages are in JSON.
void print_event(std::string_view text, const nlohmann::ordered_json& event);

/// Replaces the last line on the terminal without a line end, so that the next message overwrites
/// it. `text` must be shorter than terminal_columns(), or the terminal wraps it.
void rewrite_line(std::string_view text);
/// Removes the line that rewrite_line() left open.
void clear_line();

[[nodiscard]] bool stderr_is_terminal();
/// Whether the standard output is a terminal, on which tables have headings.
[[nodiscard]] bool stdout_is_terminal();
/// Returns the current width of the terminal, which may change; $COLUMNS or 80 without a terminal.
[[nodiscard]] int terminal_columns();
/// Returns an upper bound of the columns that well-formed UTF-8 takes on a terminal; Chinese,
/// Japanese and Korean characters and emoji take two.
[[nodiscard]] int text_columns(std::string_view text);
/// Returns the longest prefix of `text` that takes at most `columns`.
[[nodiscard]] std::string_view cut_to_columns(std::string_view text, int columns);

/// Returns the text of `json` for stdout and stderr, with control characters escaped. Bytes that
/// are not UTF-8 are replaced.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// Returns the number with separators, such as "19,980".
[[nodiscard]] std::string group_digits(std::uint64_t number);

/// Returns a name as a part of a line, escaped and cut to io::kMaxNameCharacters.
[[nodiscard]] inline std::string printable_name(std::string_view name) {
  return io::printable(name, io::kMaxNameCharacters);
}

}  // namespace fovea::cli
