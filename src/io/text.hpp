// Text for people and for JSON: names of files are bytes, JSON strings are UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fovea::io {

/// True when `bytes` is well-formed UTF-8 (no overlong forms, no surrogates).
[[nodiscard]] bool is_utf8(std::string_view bytes);

/// Returns the reversible text form of a source name, as in index and error files: every byte that
/// is not part of well-formed UTF-8 becomes "\xHH", and a backslash becomes "\\".
/// unescape(escape(s)) == s for every s. Names without backslashes in UTF-8 are unchanged.
[[nodiscard]] std::string escape(std::string_view bytes);

/// Inverse of escape. Throws fovea::Error on a malformed escape.
[[nodiscard]] std::string unescape(std::string_view text);

/// Maximum numbers of characters that printable() shows of a name and of a message.
inline constexpr std::size_t kMaxNameCharacters = 200;
inline constexpr std::size_t kMaxMessageCharacters = 1000;

/// Returns `text`, which need not be trusted, escaped for one line of a terminal: control
/// characters (C0, DEL and C1), characters that reorder text or have no width, line and paragraph
/// separators and bytes that are not UTF-8 become "\x1b" or "\u202e". When there are more than
/// `max_characters` characters, the middle is left out.
[[nodiscard]] std::string printable(std::string_view text,
                                    std::size_t max_characters = kMaxMessageCharacters);

/// Returns a JSON document escaped for a terminal: within strings, the characters that printable()
/// replaces become JSON escapes. Line breaks between values stay. `json` must be UTF-8.
[[nodiscard]] std::string printable_json(std::string_view json);

/// Returns `text` as a JSON string literal, with quotes. `text` must be UTF-8 (see escape).
[[nodiscard]] std::string json_quote(std::string_view text);

}  // namespace fovea::io
