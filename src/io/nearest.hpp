// Suggestions for a mistyped word.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::io {

/// Returns suggestions for `word`: a few words of `known` that begin with it, when it has at least
/// three letters; else those at the smallest edit distance (Damerau-Levenshtein, ignoring case), at
/// most one edit per three letters of `word`. Empty when there is none.
[[nodiscard]] std::vector<std::string> nearest(std::string_view word,
                                               std::span<const std::string> known);

/// Returns "; did you mean a or b?", or "" when no word of `known` is near.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace fovea::io
