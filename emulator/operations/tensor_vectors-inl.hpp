// Kernels of matrix products with vectors for kLines lines, with extensions that GCC and Clang
// share. The compiler keeps such vectors in registers; it would store arrays to memory at each
// step. tensor_kernels.cpp includes this file once for each size, since a template cannot have them
// as its parameter with all compilers.
//
// All functions are inlined, so that they are compiled for the instruction set of their caller.

using Floats [[gnu::vector_size(kLines * sizeof(float))]] = float;
using Ints [[gnu::vector_size(kLines * sizeof(std::int32_t))]] = std::int32_t;
using Words [[gnu::vector_size(kLines * sizeof(std::uint32_t))]] = std::uint32_t;
using Shorts [[gnu::vector_size(kLines * sizeof(std::int32_t))]] = std::int16_t;  // two of a line
// Vectors for half of the lines, whose numbers of 64 bits fill a register.
using HalfInts [[gnu::vector_size(kLines / 2 * sizeof(std::int32_t))]] = std::int32_t;
using Doubles [[gnu::vector_size(kLines / 2 * sizeof(double))]] = double;
using UnsignedLongs [[gnu::vector_size(kLines / 2 * sizeof(std::uint64_t))]] = std::uint64_t;
using Longs [[gnu::vector_size(kLines / 2 * sizeof(std::int64_t))]] = std::int64_t;

// Masks, in which all bits of a lane are equal. Not all compilers keep the results of comparisons
// in vectors, but all of them keep those of shifts.
[[gnu::always_inline]] inline Ints mask_of_less(const Ints& a, const Ints& b) {
  return (a - b) >> 31;
}
[[gnu::always_inline]] inline Ints mask_of_nonzero(const Ints& a) {
  return (a | -a) >> 31;
}
[[gnu::always_inline]] inline Ints select(const Ints& mask, const Ints& a, const Ints& b) {
  return (a & mask) | (b & ~mask);
}
[[gnu::always_inline]] inline Ints splat(int value) {
  return Ints{} + value;
}
[[gnu::always_inline]] inline HalfInts lower(const Ints& a) {
  HalfInts half;
  std::memcpy(&half, &a, sizeof(half));
  return half;
}
[[gnu::always_inline]] inline HalfInts upper(const Ints& a) {
  HalfInts half;
  std::memcpy(&half, reinterpret_cast<const std::byte*>(&a) + sizeof(half), sizeof(half));
  return half;
}
[[gnu::always_inline]] inline Ints join(const HalfInts& a, const HalfInts& b) {
  Ints joined;
  std::memcpy(&joined, &a, sizeof(a));
  std::memcpy(reinterpret_cast<std::byte*>(&joined) + sizeof(a), &b, sizeof(b));
  return joined;
}
[[gnu::always_inline]] inline Ints greater(const Ints& a, const Ints& b) {
  return a > b ? a : b;
}
[[gnu::always_inline]] inline Ints lesser(const Ints& a, const Ints& b) {
  return a < b ? a : b;
}
[[gnu::always_inline]] inline Shorts greater(const Shorts& a, const Shorts& b) {
  return a > b ? a : b;
}

// Decodes one element of each line. Special values become zeros.
template <Element kElement>
[[gnu::always_inline]] inline void decode_elements(const Words& bits, Floats& value, Ints& top,
                                                   Ints& is_special) {
  constexpr auto kWidth = static_cast<unsigned>(bits_of(kElement));
  if constexpr (kElement == Element::kS8 || kElement == Element::kS4) {
    value = __builtin_convertvector(
        reinterpret_cast<Ints>(bits << (32 - kWidth)) >> static_cast<int>(32 - kWidth), Floats);
  } else if constexpr (kElement == Element::kU8 || kElement == Element::kU4) {
    value = __builtin_convertvector(reinterpret_cast<Ints>(bits), Floats);
  } else {
    constexpr Format kFormat = format_of(kElement);
    constexpr int kMagnitudeBits = kFormat.exponent_bits + kFormat.fraction_bits;
    constexpr int kOnes = (1 << kFormat.exponent_bits) - 1;
    constexpr int kBias = (1 << (kFormat.exponent_bits - 1)) - 1;
    // 2^(127 - bias): corrects the exponent, which is read with the bias of binary32.
    constexpr auto kScale = std::bit_cast<float>(static_cast<std::uint32_t>(254 - kBias) << 23U);
    const Words sign = bits << (31 - kMagnitudeBits) & 0x80000000U;
    const auto magnitude = reinterpret_cast<Ints>(bits & ((1U << kMagnitudeBits) - 1));
    const Ints exponent = magnitude >> kFormat.fraction_bits;
    const Ints encoded = greater(exponent, splat(1)) - kBias;
    const Ints is_nonzero = mask_of_nonzero(magnitude);
    Ints special = {};
    if constexpr (kFormat.has_infinity) {
      special |= mask_of_less(splat(kOnes - 1), exponent);
    }
    if constexpr (kFormat.has_nan_at_maximum) {
      special |= mask_of_less(splat((1 << kMagnitudeBits) - 2), magnitude);
    }
    if constexpr (kFormat.exponent_bits == 8) {
      special |= is_nonzero & (mask_of_less(encoded, splat(kMinPlainTop)) |
                               mask_of_less(splat(kMaxPlainTop), encoded));
    }
    const Ints is_plain = is_nonzero & ~special;
    const auto scaled =
        reinterpret_cast<Floats>(magnitude << (23 - kFormat.fraction_bits)) * kScale;
    value = reinterpret_cast<Floats>((reinterpret_cast<Ints>(scaled) & is_plain) |
                                     reinterpret_cast<Ints>(sign));
    top = select(is_plain, encoded, splat(kNoTop));
    is_special |= special;
  }
}

template <Element kElement>
[[gnu::always_inline]] inline void decode_lines(const Lines& lines, std::size_t block,
                                                std::size_t first, DecodedLines& to) {
  constexpr std::size_t kBits = container_bits(kElement);
  constexpr std::size_t kParts = 32 / kBits;
  constexpr std::size_t kShift = kElement == Element::kTF32 ? 13 : 0;
  const std::size_t width = lines.depth / kParts;
  const Words sign = Words{} + (lines.is_negated ? 0x80000000U : 0U);
  Ints is_special = {};
  Ints top = {};
  Ints even_top = {};  // of the pair's first element
  for (std::size_t word = 0; word < width; ++word) {
    Words packed;
    load(&lines.words[(block * width + word) * kBlockLines + first], packed);
    for (std::size_t part = 0; part < kParts; ++part) {
      Words bits = packed >> static_cast<unsigned>(part * kBits + kShift);
      if constexpr (kBits < 32) {
        bits &= (1U << kBits) - 1;
      }
      Floats value;
      decode_elements<kElement>(bits, value, top, is_special);
      const std::size_t index = block * lines.depth + word * kParts + part;
      store(reinterpret_cast<Words>(value) ^ sign, &to.values[index].lines[first]);
      if constexpr (is_float(kElement)) {
        if (index % 2 == 0) {
          even_top = top - kNoTop;
        } else {
          store(even_top | top << 16, &to.tops[index / 2].lines[first]);
        }
      }
    }
  }
  store(is_special, &to.is_special[block].lines[first]);
}

template <Element kElement>
[[gnu::always_inline]] inline void decode_as(const Lines& lines, DecodedLines& to) {
  const std::size_t blocks = (lines.count + kBlockLines - 1) / kBlockLines;
  to.count = lines.count;
  to.depth = lines.depth;
  to.values.resize(blocks * lines.depth);
  to.tops.resize(blocks * lines.depth / 2);
  to.shifts.resize(blocks);
  to.is_special.resize(blocks);
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t first = 0; first < kBlockLines; first += kLines) {
      decode_lines<kElement>(lines, block, first, to);
    }
    decode_scales(lines, block, to);
  }
}

// Computes 2^(exponents - 127); 0 where that is too small for binary32.
[[gnu::always_inline]] inline void powers_of_two(const Ints& exponents, Floats& powers) {
  powers = reinterpret_cast<Floats>(exponents << 23 & -exponents >> 31);
}

// Accumulator types: the conversion of their bits to values, and of sums to bits.
struct F32Accumulators {
  static constexpr int kFractionBits = 23;
  static constexpr int kUnusedBits = 1;  // the sign, above the exponent
  static constexpr int kOnes = 255;
  static constexpr int kBias = 127;
  // Converts the bits of finite numbers.
  [[gnu::always_inline]] static void values(const Ints& bits, Floats& values) {
    values = reinterpret_cast<Floats>(bits);
  }
  // Keeps the leading bits of sum * 2^(unit - 127); a zero is +0. Units are from 1 to 254, unless
  // the sum is 0.
  [[gnu::always_inline]] static Ints bits_of(const Ints& sums, const Ints& units, int result_bits) {
    // The largest binary32 that is less than 2^31: what is above it is cut off to it.
    constexpr int kLargest = 0x7FFFFF80;
    const Ints sign = sums >> 31;
    const Ints magnitude = lesser((sums ^ sign) - sign, splat(kLargest));
    const Floats rounded = __builtin_convertvector(magnitude, Floats);
    const Ints is_rounded_up = (magnitude - __builtin_convertvector(rounded, Ints)) >> 31;
    const Ints kept = splat(-(1 << (kFractionBits - result_bits)));
    const auto truncated =
        reinterpret_cast<Floats>((reinterpret_cast<Ints>(rounded) + is_rounded_up) & kept);
    Floats powers;
    powers_of_two(units, powers);
    return reinterpret_cast<Ints>(truncated * powers) | (sign << 31);
  }
};
struct F16Accumulators {
  static constexpr int kFractionBits = 10;
  static constexpr int kUnusedBits = 17;
  static constexpr int kOnes = 31;
  static constexpr int kBias = 15;
  [[gnu::always_inline]] static void values(const Ints& bits, Floats& values) {
    Ints top;
    Ints is_special = {};
    decode_elements<Element::kF16>(reinterpret_cast<Words>(bits), values, top, is_special);
  }
  // Rounds sum * 2^(unit - 127) to nearest, ties to even. A zero is +0.
  [[gnu::always_inline]] static Ints bits_of(const Ints& sums, const Ints& units,
                                             int /*result_bits*/) {
    return join(half_bits_of(lower(sums), lower(units)), half_bits_of(upper(sums), upper(units)));
  }
  [[gnu::always_inline]] static HalfInts half_bits_of(const HalfInts& sums, const HalfInts& units) {
    constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
    constexpr int kMinExponent = 1 - kBias;
    const Longs powers = (__builtin_convertvector(units, Longs) + (1023 - 127)) << 52;
    const auto value = reinterpret_cast<UnsignedLongs>(__builtin_convertvector(sums, Doubles) *
                                                       reinterpret_cast<Doubles>(powers));
    const UnsignedLongs magnitude = value << 1 >> 1;
    const HalfInts encoded = __builtin_convertvector(magnitude >> 52, HalfInts) - 1023;
    const HalfInts exponent = encoded > kMinExponent ? encoded : HalfInts{} + kMinExponent;
    // A number whose unit in the last place is that of the result: the sum is rounded to it.
    const Longs rounder = __builtin_convertvector(exponent + (1023 + 52 - kFractionBits), Longs)
                          << 52;
    const Doubles rounded =
        reinterpret_cast<Doubles>(magnitude) + reinterpret_cast<Doubles>(rounder);
    const HalfInts fraction =
        __builtin_convertvector(reinterpret_cast<UnsignedLongs>(rounded) & kFraction, HalfInts);
    const HalfInts code = fraction + ((exponent - kMinExponent) << kFractionBits);
    const HalfInts infinity = HalfInts{} + (kOnes << kFractionBits);
    const HalfInts finite = code < infinity ? code : infinity;
    const HalfInts sign = __builtin_convertvector(value >> 63, HalfInts) << 15;
    return finite | (sign & (-finite >> 31));  // finite is not negative
  }
};

// Adds two numbers. Where the sum does not fit into 32 bits, returns half of it and an exponent
// of 1; the last bit is 1 where one was cut off, so that the leading bits can be rounded in any
// way.
[[gnu::always_inline]] inline void add_wide(const Ints& a, const Ints& b, Ints& sum,
                                            Ints& exponents) {
  const auto total =
      reinterpret_cast<Ints>(reinterpret_cast<Words>(a) + reinterpret_cast<Words>(b));
  const Ints is_wide = ((a ^ total) & (b ^ total)) >> 31;
  const Ints differing = a ^ b;
  const Ints half = ((a & b) + (differing >> 1)) | (differing & 1);
  sum = select(is_wide, half, total);
  exponents = -is_wide;
}

// The same for more numbers: an eighth of the sum, and an exponent of 3.
struct WideSum {
  Ints total = {};    // without what does not fit
  Ints eighths = {};  // of the sum, each number's rounded down
  Ints rests = {};    // eighths of it that this has left out

  [[gnu::always_inline]] void add(const Ints& number) {
    total =
        reinterpret_cast<Ints>(reinterpret_cast<Words>(total) + reinterpret_cast<Words>(number));
    eighths += number >> 3;
    rests += number & 7;
  }
  [[gnu::always_inline]] void finish(Ints& sum, Ints& exponents) const {
    const Ints floor = eighths + (rests >> 3);
    const Ints is_wide = mask_of_nonzero((floor + (1 << 28)) >> 29);
    sum = select(is_wide, floor | (mask_of_nonzero(rests & 7) & 1), total);
    exponents = is_wide & 3;
  }
};

// Multiplies a line of A with a block of lines of B. `d` holds the block's elements in that row.
// Sets `special` for those that fused_sum has to compute. `kDepth`: the number of elements, or 0 if
// the compiler does not know it.
template <typename Accumulators, std::size_t kDepth>
struct FloatSums {
  Precision precision;

  [[gnu::always_inline]] void operator()(const Row& a, const Columns& b, std::size_t count, Ints& d,
                                         Ints& special) const {
    const std::size_t depth = kDepth != 0 ? kDepth : count;
    auto pair_tops = reinterpret_cast<Shorts>(splat(2 * kNoTop * (1 << 16)));
#pragma GCC unroll 16
    for (std::size_t pair = 0; pair < depth / 2; ++pair) {
      Ints sums;
      load(b.tops + pair * kBlockLines, sums);
      sums += a.tops[pair * kBlockLines];  // the lower halves do not overflow
      pair_tops = greater(reinterpret_cast<Shorts>(sums), pair_tops);
    }
    const auto sums = reinterpret_cast<Ints>(pair_tops);
    const Ints product_tops = greater(sums >> 16, (sums & 0xFFFF) + 2 * kNoTop);
    Ints shifts;
    load(b.shifts, shifts);
    load(b.is_special, special);
    shifts += a.shift;
    const Ints has_products = mask_of_less(splat(kNoTop / 2), product_tops);
    // The accumulators' exponents and fractions, from the highest bit on.
    const auto magnitudes = reinterpret_cast<Words>(d) << Accumulators::kUnusedBits;
    const auto exponents = reinterpret_cast<Ints>(
        magnitudes >> (Accumulators::kUnusedBits + Accumulators::kFractionBits));
    const Ints is_nonzero = mask_of_nonzero(reinterpret_cast<Ints>(magnitudes));
    const Ints start_tops =
        select(is_nonzero, greater(exponents, splat(1)) - Accumulators::kBias, splat(kMinTop));
    const Ints tops =
        greater(select(has_products, product_tops + shifts, splat(kMinTop)), start_tops);
    // Infinities and NaNs, and sums that may be subnormal or beyond binary32.
    special |= a.is_special | ((((tops - kMinPlainSumTop) | (kMaxPlainSumTop - tops)) >> 31) &
                               (has_products | is_nonzero));
    if constexpr (Accumulators::kOnes - Accumulators::kBias <= kMaxPlainSumTop) {
      special |= mask_of_less(splat(Accumulators::kOnes - 1), exponents);
    }
    // The accumulators, truncated at the same position. Exponents have the bias of binary32.
    const Ints start_exponents = precision.sum_bits + 127 - tops;
    Floats starts;
    Floats start_scales;
    Accumulators::values(d & ~special, starts);
    powers_of_two(start_exponents, start_scales);
    // Products that would have no bits left are multiplied by zero.
    Floats scales;
    powers_of_two(start_exponents + shifts, scales);
    scales = reinterpret_cast<Floats>(reinterpret_cast<Ints>(scales) & has_products);
    Ints sum = __builtin_convertvector(starts * start_scales, Ints);
    Ints units = 254 - start_exponents;
    if constexpr (kDepth != 0 && kDepth <= kSafeTerms) {
      sum += terms_of(a, b, 0, kDepth, scales);
    } else if constexpr (kDepth != 0 && kDepth <= kIntTerms) {
      Ints widths;
      add_wide(sum, terms_of(a, b, 0, kDepth, scales), sum, widths);
      units += widths;
    } else {
      WideSum wide;
      wide.add(sum);
      for (std::size_t first = 0; first < depth; first += kIntTerms) {
        wide.add(terms_of(a, b, first, std::min(kIntTerms, depth - first), scales));
      }
      Ints widths;
      wide.finish(sum, widths);
      units += widths;
    }
    d = select(special, d, Accumulators::bits_of(sum, units, precision.result_bits));
  }

  // Adds up to kIntTerms products.
  [[gnu::always_inline]] static Ints terms_of(const Row& a, const Columns& b, std::size_t first,
                                              std::size_t count, const Floats& scales) {
    Ints sum = {};
#pragma GCC unroll 16
    for (std::size_t k = first; k < first + count; ++k) {
      Floats term;
      load(b.values + k * kBlockLines, term);
      sum += __builtin_convertvector(a.values[k * kBlockLines] * term * scales, Ints);
    }
    return sum;
  }
};

// The same for integers, whose sums are exact in binary32.
template <std::size_t kDepth>
struct IntegerSums {
  bool is_saturating;

  [[gnu::always_inline]] void operator()(const Row& a, const Columns& b, std::size_t count, Ints& d,
                                         Ints& /*special*/) const {
    const std::size_t depth = kDepth != 0 ? kDepth : count;
    Floats sum = {};
#pragma GCC unroll 16
    for (std::size_t k = 0; k < depth; ++k) {
      Floats factors;
      load(b.values + k * kBlockLines, factors);
      sum += a.values[k * kBlockLines] * factors;
    }
    const Ints products = __builtin_convertvector(sum, Ints);
    const auto total =
        reinterpret_cast<Ints>(reinterpret_cast<Words>(d) + reinterpret_cast<Words>(products));
    const Ints has_overflow = ((d ^ total) & (products ^ total)) >> 31;
    const Ints limit = d >> 31 ^ std::numeric_limits<std::int32_t>::max();
    d = is_saturating ? select(has_overflow, limit, total) : total;
  }
};

// Calls sums(row, columns, depth, d, special) for each line of A and block of lines of B.
template <typename Sums>
[[gnu::always_inline]] inline void for_each_block(const Product& product, const Sums& sums) {
  const DecodedLines& a = product.a;
  const DecodedLines& b = product.b;
  const Step step = product.step;
  std::vector<BlockVector<std::int32_t>>& masks = product.special.masks;
  masks.resize(a.count);
  for (std::size_t first = 0; first < b.count; first += kLines) {
    const std::size_t block = first / kBlockLines;
    const std::size_t b_lane = first % kBlockLines;
    const std::size_t columns_left = std::min(kLines, b.count - first);
    const std::size_t bytes = columns_left * sizeof(std::uint32_t);
    const std::size_t from = block * b.depth + step.first;
    const Columns columns{&b.values[from].lines[b_lane], &b.tops[from / 2].lines[b_lane],
                          &b.shifts[block].lines[b_lane], &b.is_special[block].lines[b_lane]};
    Ints any_special = {};
    for (std::size_t line = 0; line < a.count; ++line) {
      const std::size_t a_block = line / kBlockLines;
      const std::size_t lane = line % kBlockLines;
      const std::size_t index = a_block * a.depth + step.first;
      const Row row{&a.values[index].lines[lane], &a.tops[index / 2].lines[lane],
                    a.shifts[a_block].lines[lane], a.is_special[a_block].lines[lane]};
      std::uint32_t* const to = product.d.data() + line * b.count + first;
      Ints d = {};
      Ints special = {};
      if (columns_left == kLines) {  // copies of a constant size need no call
        load(to, d);
        sums(row, columns, step.count, d, special);
        store(d, to);
      } else {
        std::memcpy(&d, to, bytes);
        sums(row, columns, step.count, d, special);
        std::memcpy(to, &d, bytes);
      }
      store(special, masks[line].lines.data());
      any_special |= special;
    }
    std::array<std::int32_t, kLines> any;
    store(any_special, any.data());
    if (std::ranges::any_of(any, [](std::int32_t mask) { return mask != 0; })) [[unlikely]] {
      add_special(product, first, columns_left);
    }
  }
}

template <typename Accumulators>
[[gnu::always_inline]] inline void multiply_floats(const Product& product) {
  const Precision precision = product.rule.precision;
  switch (product.step.count) {
    case 8:
      return for_each_block(product, FloatSums<Accumulators, 8>{precision});
    case 16:
      return for_each_block(product, FloatSums<Accumulators, 16>{precision});
    case 32:
      return for_each_block(product, FloatSums<Accumulators, 32>{precision});
    default:
      return for_each_block(product, FloatSums<Accumulators, 0>{precision});
  }
}

[[gnu::always_inline]] inline void multiply_integers(const Product& product) {
  const bool is_saturating = product.rule.is_saturating;
  return product.step.count == 32 ? for_each_block(product, IntegerSums<32>{is_saturating})
                                  : for_each_block(product, IntegerSums<0>{is_saturating});
}
