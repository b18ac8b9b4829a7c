// What a mistyped word was probably meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::io {

/// What `word` may have been meant to be: a few words of `known` that begin with it, when it has at
/// least three letters; else those that are nearest to it, regardless of case: with the fewest
/// letters inserted, left out, replaced or swapped, of which there may be one per three letters of
/// `word`. Empty when there is none.
[[nodiscard]] std::vector<std::string> nearest(std::string_view word,
                                               std::span<const std::string> known);

/// "; did you mean a or b?", or "" when no word of `known` is near.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace fovea::io
