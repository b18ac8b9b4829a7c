// Text for people and for JSON: names of files are bytes, JSON strings are UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace fovea::io {

/// True when `bytes` is well-formed UTF-8 (no overlong forms, no surrogates).
[[nodiscard]] bool is_utf8(std::string_view bytes);

/// The reversible text form of a source name, used in index and error files: every byte that is
/// not part of well-formed UTF-8 becomes "\xHH", and a backslash becomes "\\".
/// unescape(escape(s)) == s for every s. Names without backslashes in UTF-8 are unchanged.
[[nodiscard]] std::string escape(std::string_view bytes);

/// Inverse of escape. Throws fovea::Error on a malformed escape.
[[nodiscard]] std::string unescape(std::string_view text);

/// `text` as a JSON string literal with its quotes. `text` must be UTF-8 (see escape).
[[nodiscard]] std::string json_quote(std::string_view text);

}  // namespace fovea::io
