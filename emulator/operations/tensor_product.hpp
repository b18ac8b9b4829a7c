// Matrix products, bit-exact with the steps of a tensor core.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "emulator/operations/matrix_descriptor.hpp"
#include "emulator/operations/tensor_arithmetic.hpp"

namespace emu {

/// Number of lines whose sums are computed together.
constexpr std::size_t kBlockLines = 16;

/// Exponent bias of E8M0, and its NaN.
constexpr int kScaleBias = 127;
constexpr int kNanScale = 255;

/// Rows of A or columns of B ("lines") with `depth` elements each, packed into words along K. The
/// words are stored for blocks of lines, in which the words with the same number are contiguous.
struct Lines {
  Element element = Element::kF16;
  std::size_t count = 0;
  std::size_t depth = 0;
  bool is_negated = false;  // floats only
  std::vector<std::uint32_t> words{};
  /// Empty, or a scale for each line, in E8M0: all of its elements are multiplied by 2^(scale -
  /// 127); 255 is NaN.
  std::vector<std::uint8_t> scales{};

  [[nodiscard]] std::size_t elements_per_word() const { return 32 / container_bits(element); }
  /// Words of a line.
  [[nodiscard]] std::size_t width() const { return depth * container_bits(element) / 32; }
  /// Changes the number of lines. Elements of new lines are zero.
  void resize(std::size_t lines);
  /// Index in `words` of a line's word.
  [[nodiscard]] static std::size_t index(std::size_t line, std::size_t word, std::size_t width) {
    return (line / kBlockLines * width + word) * kBlockLines + line % kBlockLines;
  }
  [[nodiscard]] std::uint32_t get(std::size_t line, std::size_t k) const;
  void set(std::size_t line, std::size_t k, std::uint32_t bits);
};

/// Returns the 16 packed elements of less than 8 bits of a row, in a byte each. The row's other
/// bytes are padding.
std::array<std::byte, kChunkBytes> unpack_row(std::span<const std::byte, kChunkBytes> row,
                                              std::size_t bits);

/// Stores 16 bytes of elements of one line, from `word` on.
inline void put_words(Lines& lines, std::size_t line, std::size_t word, const std::byte* chunk) {
  std::array<std::uint32_t, kChunkBytes / 4> words;
  std::memcpy(words.data(), chunk, kChunkBytes);
  const std::size_t first = Lines::index(line, word, lines.width());
  for (std::size_t i = 0; i < words.size(); ++i) {
    lines.words[first + i * kBlockLines] = words[i];
  }
}

/// Stores 16 bytes from shared memory: elements of one line from k on, or elements of one k from
/// `line` on. For elements of less than 8 bits, the chunk holds 16 packed elements and padding (PTX
/// ISA 9.7.16.10.4.4).
void put_chunk(Lines& lines, std::size_t line, std::size_t k, bool is_k_major,
               std::span<const std::byte, kChunkBytes> chunk);

/// Precision and type of the sums.
struct SumRule {
  Precision precision{};  // for floats
  Accumulator accumulator = Accumulator::kF32;
  bool is_saturating = false;  // for integers: saturates at 32 bits
  std::size_t step = 0;        // elements that are added at once; 0: all of a line
};

/// Computes d += a b^T. `d` has the shape (a.count, b.count), in words of 32 bits. Each sum of
/// floats is the `fused_sum` of a whole line, or of its steps in turn, with the scales of both
/// lines; integers are exact, and wrap around or saturate at the end. Both matrices must be of
/// floats or both of integers; the depth is at most 64, and even, as are steps. Only floats may
/// have scales.
void multiply_add(const Lines& a, const Lines& b, std::span<std::uint32_t> d, const SumRule& rule);

/// Computes one element of a product of floats with `fused_sum`.
std::uint32_t single_sum(const Lines& a, std::size_t row, const Lines& b, std::size_t column,
                         std::uint32_t c, const SumRule& rule);

}  // namespace emu
