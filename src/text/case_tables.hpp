// Tables of letters: what characters become in lower case, and what decides over a final sigma.
#pragma once

#include <cstdint>
#include <span>

namespace fovea::text {

/// Every `step`-th character from `first` to `last` becomes the one `distance` further. U+0130 is
/// in none: it becomes two characters.
struct LowerRange {
  std::uint32_t first;
  std::uint32_t last;
  std::uint8_t step;
  std::int32_t distance;
};

/// Characters with the property Case_Ignorable (which may have the other one, too), and the rest of
/// those with the property Cased: The Unicode Standard, section 3.13, Final_Sigma.
struct SigmaRange {
  enum class Kind : std::uint8_t { kCased, kIgnorable };
  std::uint32_t first;
  std::uint32_t last;
  Kind kind;
};

// Ranges in rising order, without overlap.
[[nodiscard]] std::span<const LowerRange> lower_ranges();
[[nodiscard]] std::span<const SigmaRange> sigma_ranges();

}  // namespace fovea::text
