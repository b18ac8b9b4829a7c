// Output of the program. Text from outside reaches a terminal only with its control characters
// escaped, and everything that a running command says on stderr goes through here, so that
// messages, the progress line and JSON never mix. (Usage errors are printed before any command
// runs.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "io/text.hpp"

namespace fovea::cli {

/// Makes descriptors 0 to 2 exist, so that no file opened later becomes the standard output or
/// error. Reads and writes of a descriptor that was closed keep failing.
void reserve_standard_descriptors();

/// Sets the form of messages on stderr: text, or one JSON object per line. With `quiet`, only
/// say_error() prints.
void set_messages(bool as_json, bool quiet);

/// Prints "fovea: <text>" on stderr, always as one line; as JSON, the event "note".
void say(std::string_view text);
/// Prints the error that ends the program and, unless it is "", the note on options set by
/// environment variables. As JSON, the event "error".
void say_error(std::string_view text, std::string_view environment);
/// Prints `text`, which must be printable, as a line (none when empty), or `event` with messages in
/// JSON.
void print_event(std::string_view text, const nlohmann::ordered_json& event);

/// Replaces the last line of the terminal without ending it, so that the next message overwrites
/// it. `text` must be shorter than terminal_columns(), or the terminal wraps it.
void rewrite_line(std::string_view text);
/// Removes the line that rewrite_line() left open.
void clear_line();

[[nodiscard]] bool stderr_is_terminal();
/// Whether the standard output is a terminal, on which tables have headings.
[[nodiscard]] bool stdout_is_terminal();
/// The width of the terminal at this moment (windows change); elsewhere $COLUMNS or 80.
[[nodiscard]] int terminal_columns();
/// Columns that well-formed UTF-8 takes on a terminal, where Chinese, Japanese and Korean
/// characters and emoji take two; an upper bound.
[[nodiscard]] int columns_of(std::string_view text);
/// The longest prefix of `text` that takes at most `columns`.
[[nodiscard]] std::string_view cut_to_columns(std::string_view text, int columns);

/// The text of `json` for stdout and stderr, with control characters escaped. Bytes that are not
/// UTF-8 are replaced.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// Returns "19,980" for 19980.
[[nodiscard]] std::string grouped(std::uint64_t number);

/// A name as a part of a line, escaped and cut to io::kLongestName.
[[nodiscard]] inline std::string printable_name(std::string_view name) {
  return io::printable(name, io::kLongestName);
}

}  // namespace fovea::cli
