// Case tables: lower-case mappings of characters, and properties that determine a final sigma.
#pragma once

#include <cstdint>
#include <span>

namespace fovea::text {

/// A range of lower-case mappings: every `step`-th character from `first` to `last` maps to itself
/// plus `distance`. U+0130 is in no range, because it maps to two characters.
struct LowerRange {
  std::uint32_t first;
  std::uint32_t last;
  std::uint8_t step;
  std::int32_t distance;
};

/// Characters with the property Case_Ignorable (some of which are Cased as well), and the other
/// characters with the property Cased: The Unicode Standard, section 3.13, Final_Sigma.
struct SigmaRange {
  enum class Kind : std::uint8_t { kCased, kIgnorable };
  std::uint32_t first;
  std::uint32_t last;
  Kind kind;
};

// Ranges in ascending order, without overlap.
[[nodiscard]] std::span<const LowerRange> lower_ranges();
[[nodiscard]] std::span<const SigmaRange> sigma_ranges();

}  // namespace fovea::text
