// UTF-8, well-formed as Unicode defines it: no overlong forms, no surrogates.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace fovea {

/// Returns the length in bytes of the first sequence in `bytes`, which must not be empty; 0 if it
/// is not well-formed.
[[nodiscard]] std::size_t utf8_length(std::string_view bytes);

/// Returns the number of characters (code points); nothing when `text` is not UTF-8.
[[nodiscard]] std::optional<std::size_t> utf8_characters(std::string_view text);

}  // namespace fovea
