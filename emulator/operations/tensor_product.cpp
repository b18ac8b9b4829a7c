// Matrix products, bit-exact with the steps of a tensor core.
//
// Floats: the product of two elements is exact in binary32, also when multiplied by a power of
// two. A term is therefore truncated by scaling it by 2^(sum_bits - top), `top` being the largest
// exponent of all terms, and converting it to an integer, which truncates towards zero. Sums of up
// to 16 terms fit into 32 bits: each is less than 4 * 2^25 * (1 - 2^-8), as significands are less
// than 2. Scales of lines, powers of two, only add to the exponents of their products. Lines with
// infinities, NaNs or exponents so far apart that a product does not fit into binary32, and sums
// near the limits of binary32, are computed by fused_sum one by one.
#include "emulator/operations/tensor_product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "emulator/operations/number_formats.hpp"

namespace emu {
namespace {

// Number of columns whose sums are computed together; B is padded to a multiple of it.
constexpr std::size_t kBlockColumns = 16;
constexpr std::size_t kMaxDepth = 32;
// Top of a zero: less than that of any product, also when another top is added to it.
constexpr std::int16_t kNoTop = -8192;
// Range of tops for which products of floats are normal numbers in binary32. Scales are in the same
// range.
constexpr int kMinPlainTop = -50;
constexpr int kMaxPlainTop = 60;
// Minimum top of sums whose unit, 2^(top - 25), keeps them normal.
constexpr int kMinPlainSumTop = -100;

// Exponent bias of E8M0.
constexpr int kScaleBias = 127;
constexpr int kNanScale = 255;

// Elements of a matrix, decoded for the multiplication.
struct DecodedMatrix {
  std::vector<float> values;
  std::vector<std::int16_t> tops;
  std::vector<std::int16_t> shifts;      // exponent of each line's scale
  std::vector<std::uint8_t> is_special;  // per line: whether it is computed by fused_sum
};

struct DecodedElement {
  float value;
  std::int16_t top;
  bool is_special;
};

template <Element kElement>
DecodedElement decode_element(std::uint32_t bits) {
  if constexpr (kElement == Element::kS8) {
    return {static_cast<float>(static_cast<std::int8_t>(bits)), 0, false};
  } else if constexpr (kElement == Element::kU8) {
    return {static_cast<float>(bits), 0, false};
  } else {
    constexpr Format kFormat = format_of(kElement);
    constexpr std::uint32_t kOnes = (1U << kFormat.exponent_bits) - 1;
    constexpr int kBias = (1 << (kFormat.exponent_bits - 1)) - 1;
    constexpr int kWidth = kFormat.exponent_bits + kFormat.fraction_bits;
    // 2^(127 - bias): corrects the exponent, which is read with the bias of binary32.
    constexpr auto kScale = std::bit_cast<float>(static_cast<std::uint32_t>(254 - kBias) << 23U);
    const std::uint32_t magnitude = bits & ((1U << kWidth) - 1);
    const std::uint32_t sign = (bits >> kWidth & 1U) << 31U;
    const auto exponent = static_cast<int>(magnitude >> kFormat.fraction_bits);
    const int top = std::max(exponent, 1) - kBias;
    const float value = std::bit_cast<float>(magnitude << (23 - kFormat.fraction_bits)) * kScale;
    bool is_special = (kFormat.has_infinity && exponent == static_cast<int>(kOnes)) ||
                      (kFormat.has_nan_at_maximum && magnitude == (1U << kWidth) - 1);
    if constexpr (kElement == Element::kBF16) {
      is_special |= magnitude != 0 && (top < kMinPlainTop || top > kMaxPlainTop);
    }
    return {std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign),
            magnitude == 0 ? kNoTop : static_cast<std::int16_t>(top), is_special};
  }
}

// Index of an element. A is stored line by line; B in blocks of columns, in which the columns of
// one k are contiguous.
constexpr std::size_t index_in_a(std::size_t line, std::size_t k, std::size_t depth) {
  return line * depth + k;
}
constexpr std::size_t index_in_b(std::size_t line, std::size_t k, std::size_t depth) {
  return (line / kBlockColumns * depth + k) * kBlockColumns + line % kBlockColumns;
}

template <Element kElement, auto kIndex>
DecodedMatrix decode_matrix_as(const Lines& lines) {
  const std::size_t padded = (lines.count + kBlockColumns - 1) / kBlockColumns * kBlockColumns;
  DecodedMatrix matrix{.values = std::vector<float>(padded * lines.depth),
                       .tops = std::vector<std::int16_t>(padded * lines.depth, kNoTop),
                       .shifts = std::vector<std::int16_t>(padded),
                       .is_special = std::vector<std::uint8_t>(padded)};
  for (std::size_t line = 0; line < lines.count; ++line) {
    bool is_special = false;
    if (!lines.scales.empty()) {
      is_special = lines.scales[line] == kNanScale;
      matrix.shifts[line] = static_cast<std::int16_t>(lines.scales[line] - kScaleBias);
    }
    for (std::size_t k = 0; k < lines.depth; ++k) {
      const DecodedElement element = decode_element<kElement>(lines.bits[line * lines.depth + k]);
      if (element.is_special) {
        is_special = true;  // treated as zero here
        continue;
      }
      const std::size_t index = kIndex(line, k, lines.depth);
      matrix.values[index] = lines.is_negated ? -element.value : element.value;
      matrix.tops[index] = element.top;
    }
    matrix.is_special[line] = is_special ? 1 : 0;
  }
  return matrix;
}

template <auto kIndex>
DecodedMatrix decode_matrix(const Lines& lines) {
  constexpr auto kDecoders = []<std::size_t... kElements>(std::index_sequence<kElements...>) {
    return std::array{&decode_matrix_as<static_cast<Element>(kElements), kIndex>...};
  }(std::make_index_sequence<kElementCount>{});
  return kDecoders.at(static_cast<std::size_t>(lines.element))(lines);
}

// Vectors for the columns of a block, with extensions that GCC and Clang share. The compiler keeps
// them in registers; it would store arrays to memory at each step.
using Floats [[gnu::vector_size(kBlockColumns * sizeof(float))]] = float;
using Ints [[gnu::vector_size(kBlockColumns * sizeof(std::int32_t))]] = std::int32_t;
using Shorts [[gnu::vector_size(kBlockColumns * sizeof(std::int16_t))]] = std::int16_t;
using Doubles [[gnu::vector_size(kBlockColumns * sizeof(double))]] = double;
using Longs [[gnu::vector_size(kBlockColumns * sizeof(std::int64_t))]] = std::int64_t;

// Functions take vectors by reference: passing them by value needs registers that not every CPU
// has.
//
// Computes 2^exponents; 0 where that is too small for binary32.
inline void powers_of_two(const Ints& exponents, Floats& powers) {
  const Ints bits = (exponents + 127) << 23;
  powers = reinterpret_cast<Floats>(exponents > -127 ? bits : Ints{});
}

// Accumulator types: the conversion of their bits to values, and of sums to bits.
struct F32Accumulators {
  static constexpr int kFractionBits = 23;
  static constexpr int kOnes = 255;
  static constexpr int kBias = 127;
  // Converts the bits of finite numbers.
  static void values(const Ints& bits, Floats& values) { values = reinterpret_cast<Floats>(bits); }
  template <int kResultBits>
  static void bits_of(const Doubles& sums, const Ints& unit_exponents, Ints& bits) {
    // Mask of the leading bits; the lower bits of the binary64 fraction become zero.
    constexpr std::int64_t kKept = -(std::int64_t{1} << (52 - kResultBits));
    const auto truncated = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(sums) & kKept);
    const Longs powers = (__builtin_convertvector(unit_exponents, Longs) + 1023) << 52;
    bits = reinterpret_cast<Ints>(
        __builtin_convertvector(truncated * reinterpret_cast<Doubles>(powers), Floats));
  }
};
struct F16Accumulators {
  static constexpr int kFractionBits = 10;
  static constexpr int kOnes = 31;
  static constexpr int kBias = 15;
  static void values(const Ints& bits, Floats& values) {
    for (std::size_t i = 0; i < kBlockColumns; ++i) {
      values[i] = f16_value(static_cast<std::uint16_t>(bits[i]));
    }
  }
  template <int kResultBits>
  static void bits_of(const Doubles& sums, const Ints& unit_exponents, Ints& bits) {
    for (std::size_t i = 0; i < kBlockColumns; ++i) {
      const int rounded = f16_bits_of_double(std::ldexp(sums[i], unit_exponents[i]));
      bits[i] = (rounded & 0x7FFF) == 0 ? 0 : rounded;
    }
  }
};

// A row of A or a block of columns of B.
struct Factors {
  const float* values;
  const std::int16_t* tops;
  const std::int16_t* shifts;
};

// Multiplies one row of A with a block of columns. `d` holds the block's elements in that row. Sets
// `is_special` for those that fused_sum has to compute.
template <int kSumBits, int kResultBits, typename Accumulators>
void multiply_block(const Factors& a, const Factors& b, std::size_t depth, std::uint32_t* d,
                    std::uint8_t* is_special) {
  Shorts product_tops = {};
  product_tops += static_cast<std::int16_t>(2 * kNoTop);
  for (std::size_t k = 0; k < depth; ++k) {
    Shorts top;
    std::memcpy(&top, b.tops + k * kBlockColumns, sizeof(top));
    top += a.tops[k];
    product_tops = top > product_tops ? top : product_tops;
  }
  Ints accumulators;
  std::memcpy(&accumulators, d, sizeof(accumulators));
  Shorts b_shifts;
  std::memcpy(&b_shifts, b.shifts, sizeof(b_shifts));
  const Ints shifts = __builtin_convertvector(b_shifts, Ints) + int{a.shifts[0]};
  const Ints unscaled_tops = __builtin_convertvector(product_tops, Ints);
  const Ints has_products = unscaled_tops > kNoTop / 2;
  constexpr int kOnes = Accumulators::kOnes;
  constexpr int kFractionBits = Accumulators::kFractionBits;
  const Ints exponents = accumulators >> kFractionBits & kOnes;
  const Ints is_zero =
      (accumulators & ((kOnes << kFractionBits) | ((1 << kFractionBits) - 1))) == 0;
  const Ints is_finite = exponents != kOnes;
  const Ints min_top = Ints{} + kMinTop;
  const Ints start_tops =
      is_zero ? min_top : (exponents > 1 ? exponents : Ints{} + 1) - Accumulators::kBias;
  const Ints scaled_tops = has_products ? unscaled_tops + shifts : min_top;
  const Ints tops = scaled_tops > start_tops ? scaled_tops : start_tops;
  // Infinities and NaNs, and sums that may be subnormal.
  const Ints special = ~is_finite | ((tops < kMinPlainSumTop) & (has_products | ~is_zero));
  // Products that would have no bits left are multiplied by zero.
  Floats scales;
  powers_of_two(kSumBits - tops + shifts, scales);
  scales = reinterpret_cast<Floats>(reinterpret_cast<Ints>(scales) & has_products);
  // The accumulators, truncated at the same position.
  Floats starts;
  Floats start_scales;
  Accumulators::values(accumulators & ~special, starts);
  powers_of_two(kSumBits - tops, start_scales);
  const Ints start = __builtin_convertvector(starts * start_scales, Ints);
  Doubles sums = __builtin_convertvector(start, Doubles);
  for (std::size_t half = 0; half < depth; half += 16) {
    Ints sum = {};
    for (std::size_t k = half; k < half + 16; ++k) {
      Floats term;
      std::memcpy(&term, b.values + k * kBlockColumns, sizeof(term));
      sum += __builtin_convertvector(a.values[k] * term * scales, Ints);
    }
    sums += __builtin_convertvector(sum, Doubles);
  }
  Ints results;
  Accumulators::template bits_of<kResultBits>(sums, tops - kSumBits, results);
  for (std::size_t i = 0; i < kBlockColumns; ++i) {
    is_special[i] |= static_cast<std::uint8_t>(special[i] & 1);
    d[i] = is_special[i] != 0 ? d[i] : static_cast<std::uint32_t>(results[i]);
  }
}

using FloatKernel = void (*)(const Factors&, const Factors&, std::size_t, std::uint32_t*,
                             std::uint8_t*);

FloatKernel select_float_kernel(const SumRule& rule) {
  if (rule.accumulator == Accumulator::kF16) {
    return &multiply_block<25, 10, F16Accumulators>;
  }
  return rule.precision.sum_bits == 13 ? &multiply_block<13, 13, F32Accumulators>
                                       : &multiply_block<25, 23, F32Accumulators>;
}

// Saturates the sum to 32 bits, or wraps it around.
std::uint32_t add_integers(std::uint32_t c, std::int64_t products, bool is_saturating) {
  std::int64_t sum = std::int64_t{static_cast<std::int32_t>(c)} + products;
  if (is_saturating) {
    sum = std::clamp<std::int64_t>(sum, std::numeric_limits<std::int32_t>::min(),
                                   std::numeric_limits<std::int32_t>::max());
  }
  return static_cast<std::uint32_t>(sum);
}

// Multiplies 8-bit integers: sums of 32 products are exact in binary32.
void multiply_byte_block(const float* a, const float* b, std::size_t depth, bool is_saturating,
                         std::uint32_t* d) {
  Floats sum = {};
  for (std::size_t k = 0; k < depth; ++k) {
    Floats factors;
    std::memcpy(&factors, b + k * kBlockColumns, sizeof(factors));
    sum += a[k] * factors;
  }
  for (std::size_t i = 0; i < kBlockColumns; ++i) {
    d[i] = add_integers(d[i], static_cast<std::int32_t>(sum[i]), is_saturating);
  }
}

}  // namespace

void put_chunk(Lines& lines, std::size_t line, std::size_t k, bool is_k_major,
               std::span<const std::byte, kChunkBytes> chunk) {
  std::uint16_t* const to = &lines.bits[line * lines.depth + k];
  const std::size_t step = is_k_major ? 1 : lines.depth;
  const std::size_t bits = bits_of(lines.element);
  if (bits == 16) {
    std::array<std::uint16_t, kChunkBytes / 2> elements;
    std::memcpy(elements.data(), chunk.data(), kChunkBytes);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      to[i * step] = elements[i];
    }
    return;
  }
  std::array<std::uint8_t, kChunkBytes + 1> bytes{};
  std::memcpy(bytes.data(), chunk.data(), kChunkBytes);
  const std::uint32_t mask = (1U << bits) - 1;
  for (std::size_t i = 0; i < kChunkBytes; ++i) {
    const std::size_t first = i * bits;
    const std::uint32_t two_bytes = bytes[first / 8] | std::uint32_t{bytes[first / 8 + 1]} << 8U;
    to[i * step] = static_cast<std::uint16_t>(two_bytes >> (first % 8) & mask);
  }
}

std::uint32_t single_sum(const Lines& a, std::size_t row, const Lines& b, std::size_t column,
                         std::uint32_t c, const SumRule& rule) {
  std::array<Parts, kMaxDepth> x;
  std::array<Parts, kMaxDepth> y;
  const auto decode = [](const Lines& lines, std::size_t line, std::array<Parts, kMaxDepth>& to) {
    const int scale = lines.scales.empty() ? kScaleBias : lines.scales[line];
    for (std::size_t k = 0; k < lines.depth; ++k) {
      Parts& parts = to.at(k);
      parts = parts_of(lines.element, lines.bits[line * lines.depth + k]);
      parts.significand = lines.is_negated ? -parts.significand : parts.significand;
      parts.exponent += scale - kScaleBias;
      parts.top += scale - kScaleBias;
      parts.is_nan |= scale == kNanScale;
    }
    return std::span<const Parts>(to.data(), lines.depth);
  };
  const std::span<const Parts> a_factors = decode(a, row, x);
  const std::span<const Parts> b_factors = decode(b, column, y);
  if (rule.accumulator == Accumulator::kF16) {
    return fused_sum_of_f16(a_factors, b_factors, static_cast<std::uint16_t>(c), rule.precision);
  }
  return std::bit_cast<std::uint32_t>(
      fused_sum(a_factors, b_factors, std::bit_cast<float>(c), rule.precision));
}

void multiply_add(const Lines& a, const Lines& b, std::span<std::uint32_t> d, const SumRule& rule) {
  const std::size_t depth = a.depth;
  const DecodedMatrix x = decode_matrix<&index_in_a>(a);
  const DecodedMatrix y = decode_matrix<&index_in_b>(b);
  const FloatKernel multiply_floats = select_float_kernel(rule);
  for (std::size_t first = 0; first < b.count; first += kBlockColumns) {
    const std::size_t columns = std::min(kBlockColumns, b.count - first);
    const Factors b_factors{&y.values[first * depth], &y.tops[first * depth], &y.shifts[first]};
    for (std::size_t row = 0; row < a.count; ++row) {
      const Factors a_factors{&x.values[row * depth], &x.tops[row * depth], &x.shifts[row]};
      std::uint32_t* const to = &d[row * b.count + first];
      std::array<std::uint32_t, kBlockColumns> block{};
      std::array<std::uint8_t, kBlockColumns> is_special{};
      std::copy_n(to, columns, block.begin());
      if (!is_float(a.element)) {
        multiply_byte_block(a_factors.values, b_factors.values, depth, rule.is_saturating,
                            block.data());
        std::copy_n(block.begin(), columns, to);
        continue;
      }
      for (std::size_t i = 0; i < kBlockColumns; ++i) {
        is_special.at(i) = x.is_special[row] | y.is_special[first + i];
      }
      multiply_floats(a_factors, b_factors, depth, block.data(), is_special.data());
      for (std::size_t i = 0; i < columns; ++i) {
        if (is_special.at(i) != 0) {
          block.at(i) = single_sum(a, row, b, first + i, block.at(i), rule);
        }
      }
      std::copy_n(block.begin(), columns, to);
    }
  }
}

}  // namespace emu
