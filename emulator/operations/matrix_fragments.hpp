// Fragments of warp-level matrix products: which elements of a matrix the registers of a lane hold.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emu {

/// What a fragment is of, and in what it counts elements.
enum class FragmentKind : std::uint8_t {
  kWords,    // rows of A or columns of B, in words of 32 bits along K
  kDoubles,  // the same, in elements of 64 bits
  kSums,     // C and D, in elements
};

/// Shape of a fragment. Lines of A are its rows, and those of B its columns. Lines of C and D are
/// those of the wider of A and B: rows, except for m8n32k16.
struct FragmentShape {
  FragmentKind kind = FragmentKind::kWords;
  std::uint16_t lines = 0;
  std::uint16_t width = 0;  // units of a line
  bool is_wide = false;     // consecutive registers hold lines l and l + 8

  auto operator<=>(const FragmentShape&) const = default;

  /// Number of units that a lane holds.
  [[nodiscard]] std::size_t units() const { return std::size_t{lines} * width / 32; }
};

struct FragmentPlace {
  std::uint16_t line = 0;
  std::uint16_t unit = 0;
};

/// Returns the place of a lane's unit. These are the layouts that PTX documents for mma.sync; those
/// of wmma are what ptxas makes of it for sm_80 and later.
FragmentPlace place_of(const FragmentShape& shape, std::size_t number, std::size_t lane);

/// A fragment's shape, and for each of its units and each lane its place, and the index of the unit
/// where the product takes it: in `Lines::words` for words, line by line for doubles, and for sums
/// with the lines of each column (or row, for m8n32k16) contiguous.
struct Fragment {
  FragmentShape shape;
  std::vector<FragmentPlace> places{};  // shape (units, 32)
  std::vector<std::uint16_t> index{};   // the same
};

/// Returns the fragment of a shape; it stays where it is.
const Fragment& fragment_of(const FragmentShape& shape);

}  // namespace emu
