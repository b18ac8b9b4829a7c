// Products of whole matrices, bit for bit what a tensor core's step makes of each element.
//
// Floats: the product of two elements is exact in binary32, and so is its multiple by a power of
// two. So a term is cut off by scaling it by 2^(sum_bits - top), `top` being the largest exponent
// of all terms, and converting it to a whole number, which cuts towards zero. At most 16 terms are
// added up in 32 bits: each is less than 4 * 2^25 * (1 - 2^-8), as significands are less than 2.
// Lines with infinities, NaNs or exponents so far apart that binary32 has no room for a product,
// and sums near its ends, go through fused_sum one by one.
#include "emulator/operations/tensor_product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace emu {
namespace {

// Columns whose sums are made together; B is padded to a multiple of them.
constexpr std::size_t kBlock = 16;
constexpr std::size_t kMostDepth = 32;
// The top of a zero: less than that of any product, also when it is added to another.
constexpr std::int16_t kNoTop = -8192;
// Products of floats whose tops are between these are numbers of binary32, and not subnormal; so is
// each scale.
constexpr int kLeastPlainTop = -50;
constexpr int kMostPlainTop = 60;
// Sums whose unit is at least 2^(this - 25) are no subnormal numbers.
constexpr int kLeastPlainSumTop = -100;

// Elements as they are multiplied.
struct Plain {
  std::vector<float> values;
  std::vector<std::int16_t> tops;
  std::vector<std::uint8_t> is_special;  // of each line: it goes through fused_sum
};

struct Format {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;
};

constexpr Format format_of(Element element) {
  switch (element) {
    case Element::kF16:
      return {5, 10, true};
    case Element::kBF16:
      return {8, 7, true};
    case Element::kE5M2:
      return {5, 2, true};
    default:
      return {4, 3, false};
  }
}

struct Decoded {
  float value;
  std::int16_t top;
  bool is_special;
};

template <Element kElement>
Decoded decoded(std::uint32_t bits) {
  if constexpr (kElement == Element::kS8) {
    return {static_cast<float>(static_cast<std::int8_t>(bits)), 0, false};
  } else if constexpr (kElement == Element::kU8) {
    return {static_cast<float>(bits), 0, false};
  } else {
    constexpr Format kFormat = format_of(kElement);
    constexpr std::uint32_t kOnes = (1U << kFormat.exponent_bits) - 1;
    constexpr int kBias = (1 << (kFormat.exponent_bits - 1)) - 1;
    constexpr int kWidth = kFormat.exponent_bits + kFormat.fraction_bits;
    // 2^(127 - bias): from the exponent's bits as binary32 reads them to what they mean.
    constexpr auto kScale = std::bit_cast<float>(static_cast<std::uint32_t>(254 - kBias) << 23U);
    const std::uint32_t magnitude = bits & ((1U << kWidth) - 1);
    const std::uint32_t sign = bits >> kWidth << 31U;
    const auto exponent = static_cast<int>(magnitude >> kFormat.fraction_bits);
    const int top = std::max(exponent, 1) - kBias;
    const float value = std::bit_cast<float>(magnitude << (23 - kFormat.fraction_bits)) * kScale;
    bool is_special = kFormat.has_infinity ? exponent == static_cast<int>(kOnes)
                                           : magnitude == (1U << kWidth) - 1;
    if constexpr (kElement == Element::kBF16) {
      is_special |= magnitude != 0 && (top < kLeastPlainTop || top > kMostPlainTop);
    }
    return {std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign),
            magnitude == 0 ? kNoTop : static_cast<std::int16_t>(top), is_special};
  }
}

// Where an element is: A's lie line by line; B's in blocks of columns, and in each the columns of
// one k side by side.
constexpr std::size_t place_in_a(std::size_t line, std::size_t k, std::size_t depth) {
  return line * depth + k;
}
constexpr std::size_t place_in_b(std::size_t line, std::size_t k, std::size_t depth) {
  return (line / kBlock * depth + k) * kBlock + line % kBlock;
}

template <Element kElement, auto kPlace>
Plain plain_of(const Lines& lines) {
  const std::size_t padded = (lines.count + kBlock - 1) / kBlock * kBlock;
  Plain plain{.values = std::vector<float>(padded * lines.depth),
              .tops = std::vector<std::int16_t>(padded * lines.depth, kNoTop),
              .is_special = std::vector<std::uint8_t>(padded)};
  for (std::size_t line = 0; line < lines.count; ++line) {
    bool is_special = false;
    for (std::size_t k = 0; k < lines.depth; ++k) {
      const Decoded element = decoded<kElement>(lines.bits[line * lines.depth + k]);
      if (element.is_special) {
        is_special = true;  // zero, here
        continue;
      }
      const std::size_t place = kPlace(line, k, lines.depth);
      plain.values[place] = lines.is_negated ? -element.value : element.value;
      plain.tops[place] = element.top;
    }
    plain.is_special[line] = is_special ? 1 : 0;
  }
  return plain;
}

template <auto kPlace>
Plain plain_of(const Lines& lines) {
  switch (lines.element) {
    case Element::kF16:
      return plain_of<Element::kF16, kPlace>(lines);
    case Element::kBF16:
      return plain_of<Element::kBF16, kPlace>(lines);
    case Element::kE4M3:
      return plain_of<Element::kE4M3, kPlace>(lines);
    case Element::kE5M2:
      return plain_of<Element::kE5M2, kPlace>(lines);
    case Element::kS8:
      return plain_of<Element::kS8, kPlace>(lines);
    case Element::kU8:
      return plain_of<Element::kU8, kPlace>(lines);
  }
  return {};
}

float single_sum(const Lines& a, std::size_t row, const Lines& b, std::size_t column, float c) {
  std::array<Parts, kMostDepth> x;
  std::array<Parts, kMostDepth> y;
  const auto decode = [](const Lines& lines, std::size_t line, std::array<Parts, kMostDepth>& to) {
    for (std::size_t k = 0; k < lines.depth; ++k) {
      to.at(k) = parts_of(lines.element, lines.bits[line * lines.depth + k]);
      if (lines.is_negated) {
        to.at(k).significand = -to.at(k).significand;
      }
    }
    return std::span<const Parts>(to.data(), lines.depth);
  };
  return fused_sum(decode(a, row, x), decode(b, column, y), c, precision_of(a.element));
}

// A block's columns as the compiler keeps them in registers: arrays would go through memory at each
// step. (Extensions that GCC and Clang share.)
using Floats [[gnu::vector_size(kBlock * sizeof(float))]] = float;
using Wholes [[gnu::vector_size(kBlock * sizeof(std::int32_t))]] = std::int32_t;
using Shorts [[gnu::vector_size(kBlock * sizeof(std::int16_t))]] = std::int16_t;

// One row of A with a block of columns. `d` are the block's elements in that row; `is_special` says
// which of them are left to do.
template <int kSumBits, int kResultBits>
void multiply_block(const float* a, const std::int16_t* a_tops, const float* b,
                    const std::int16_t* b_tops, std::size_t depth, std::uint32_t* d,
                    std::uint8_t* is_special) {
  Shorts tops = {};
  tops += static_cast<std::int16_t>(2 * kNoTop);
  for (std::size_t k = 0; k < depth; ++k) {
    Shorts top;
    std::memcpy(&top, b_tops + k * kBlock, sizeof(top));
    top += a_tops[k];
    tops = top > tops ? top : tops;
  }
  Floats scales = {};
  std::array<double, kBlock> starts;
  std::array<double, kBlock> units;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const int exponent = static_cast<int>(d[i] >> 23U & 255U);
    const int top = std::max(static_cast<int>(tops[i]), std::max(exponent, 1) - 127);
    const bool has_products = tops[i] > kNoTop / 2;
    scales[i] = has_products
                    ? std::bit_cast<float>(static_cast<std::uint32_t>(kSumBits - top + 127) << 23U)
                    : 0.0F;
    // The accumulator cut off at the same place. Infinities and NaNs are special.
    is_special[i] |= static_cast<std::uint8_t>(exponent == 255);
    is_special[i] |= static_cast<std::uint8_t>(top < kLeastPlainSumTop && d[i] << 1U != 0);
    const double scale =
        std::bit_cast<double>(static_cast<std::uint64_t>(kSumBits - top + 1023) << 52U);
    const float start = exponent == 255 ? 0.0F : std::bit_cast<float>(d[i]);
    starts[i] = static_cast<double>(static_cast<std::int32_t>(static_cast<double>(start) * scale));
    units[i] = std::bit_cast<double>(static_cast<std::uint64_t>(top - kSumBits + 1023) << 52U);
  }
  std::array<double, kBlock> sums = starts;
  for (std::size_t half = 0; half < depth; half += 16) {
    Wholes sum = {};
    for (std::size_t k = half; k < half + 16; ++k) {
      Floats term;
      std::memcpy(&term, b + k * kBlock, sizeof(term));
      sum += __builtin_convertvector(a[k] * term * scales, Wholes);
    }
    for (std::size_t i = 0; i < kBlock; ++i) {
      sums[i] += static_cast<double>(sum[i]);
    }
  }
  // The result's leading bits: those of binary64 behind them become zero.
  constexpr std::uint64_t kKept = ~std::uint64_t{0} << (52 - kResultBits);
  for (std::size_t i = 0; i < kBlock; ++i) {
    const double cut = std::bit_cast<double>(std::bit_cast<std::uint64_t>(sums[i]) & kKept);
    const float result = static_cast<float>(cut * units[i]);
    d[i] = is_special[i] != 0 ? d[i] : std::bit_cast<std::uint32_t>(result);
  }
}

// Sums of 32 products of bytes are exact in binary32.
void multiply_block_of_bytes(const float* a, const float* b, std::size_t depth, std::uint32_t* d) {
  Floats sum = {};
  for (std::size_t k = 0; k < depth; ++k) {
    Floats factors;
    std::memcpy(&factors, b + k * kBlock, sizeof(factors));
    sum += a[k] * factors;
  }
  for (std::size_t i = 0; i < kBlock; ++i) {
    d[i] += static_cast<std::uint32_t>(static_cast<std::int32_t>(sum[i]));
  }
}

}  // namespace

void multiply_add(const Lines& a, const Lines& b, std::span<std::uint32_t> d) {
  const std::size_t depth = a.depth;
  const Plain x = plain_of<&place_in_a>(a);
  const Plain y = plain_of<&place_in_b>(b);
  for (std::size_t first = 0; first < b.count; first += kBlock) {
    const std::size_t columns = std::min(kBlock, b.count - first);
    const float* const values = &y.values[first * depth];
    const std::int16_t* const tops = &y.tops[first * depth];
    for (std::size_t row = 0; row < a.count; ++row) {
      std::uint32_t* const to = &d[row * b.count + first];
      std::array<std::uint32_t, kBlock> block{};
      std::array<std::uint8_t, kBlock> is_special{};
      std::copy_n(to, columns, block.begin());
      if (!is_float(a.element)) {
        multiply_block_of_bytes(&x.values[row * depth], values, depth, block.data());
        std::copy_n(block.begin(), columns, to);
        continue;
      }
      for (std::size_t i = 0; i < kBlock; ++i) {
        is_special.at(i) = x.is_special[row] | y.is_special[first + i];
      }
      if (bytes_of(a.element) == 2) {
        multiply_block<25, 23>(&x.values[row * depth], &x.tops[row * depth], values, tops, depth,
                               block.data(), is_special.data());
      } else {
        multiply_block<13, 13>(&x.values[row * depth], &x.tops[row * depth], values, tops, depth,
                               block.data(), is_special.data());
      }
      for (std::size_t i = 0; i < columns; ++i) {
        if (is_special.at(i) != 0) {
          block.at(i) = std::bit_cast<std::uint32_t>(
              single_sum(a, row, b, first + i, std::bit_cast<float>(block.at(i))));
        }
      }
      std::copy_n(block.begin(), columns, to);
    }
  }
}

void multiply_add_singly(const Lines& a, const Lines& b, std::span<std::uint32_t> d) {
  const auto whole = [](const Lines& lines, std::size_t line, std::size_t k) {
    const std::uint16_t bits = lines.bits[line * lines.depth + k];
    return lines.element == Element::kS8 ? static_cast<std::int8_t>(bits) : int{bits};
  };
  for (std::size_t row = 0; row < a.count; ++row) {
    for (std::size_t column = 0; column < b.count; ++column) {
      std::uint32_t& sum = d[row * b.count + column];
      if (is_float(a.element)) {
        sum =
            std::bit_cast<std::uint32_t>(single_sum(a, row, b, column, std::bit_cast<float>(sum)));
        continue;
      }
      for (std::size_t k = 0; k < a.depth; ++k) {
        sum += static_cast<std::uint32_t>(whole(a, row, k) * whole(b, column, k));
      }
    }
  }
}

}  // namespace emu
