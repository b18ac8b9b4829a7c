// Kernels of matrix products in vectors of 16 lines, compiled for several instruction sets of the
// CPU.
//
// Floats: the product of two elements is exact in binary32, also when multiplied by a power of
// two. A term is therefore truncated by scaling it by 2^(sum_bits - top), `top` being the largest
// exponent of all terms, and converting it to an integer, which truncates towards zero. Sums of up
// to 16 terms fit into 32 bits: each is less than 4 * 2^25 * (1 - 2^-8), as significands are less
// than 2. More of them may not, and then lose bits that no result has. Exponents are compared in
// pairs, as numbers of 16 bits, of which the lower is counted from kNoTop. Scales of lines, powers
// of two, only add to the exponents of their products. Lines with infinities, NaNs or exponents so
// far apart that a product does not fit into binary32, and sums near the limits of binary32, are
// computed by fused_sum one by one.
#include "emulator/operations/tensor_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace emu {
namespace {

// Functions of vectors are always inlined: their ABI, about which compilers warn, does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

// Top of a zero: less than that of any product, also when another top is added to it.
constexpr int kNoTop = -8192;
// Range of tops for which products of floats are normal numbers in binary32. Scales are in the same
// range.
constexpr int kMinPlainTop = -50;
constexpr int kMaxPlainTop = 60;
// Minimum top of sums whose unit, 2^(top - 25), keeps them normal.
constexpr int kMinPlainSumTop = -100;
// Maximum top of sums: that of finite accumulators.
constexpr int kMaxPlainSumTop = 127;
// Terms whose sum fits into 32 bits, and those to which an accumulator can be added as well.
constexpr std::size_t kIntTerms = 16;
constexpr std::size_t kSafeTerms = 8;

template <typename Vector>
[[gnu::always_inline]] inline void load(const void* from, Vector& to) {
  std::memcpy(&to, from, sizeof(to));
}
template <typename Vector>
[[gnu::always_inline]] inline void store(const Vector& from, void* to) {
  std::memcpy(to, &from, sizeof(from));
}

// Decodes the scales of a block, if the lines have any.
inline void decode_scales(const Lines& lines, std::size_t block, DecodedLines& to) {
  to.shifts[block] = {};
  if (lines.scales.empty()) {
    return;
  }
  const std::size_t first = block * kBlockLines;
  for (std::size_t i = 0; i < std::min(kBlockLines, lines.count - first); ++i) {
    const std::uint8_t scale = lines.scales[first + i];
    to.shifts[block].lines.at(i) = scale - kScaleBias;
    to.is_special[block].lines.at(i) |= scale == kNanScale ? -1 : 0;
  }
}

// A line of A, and lines of B from one on: their elements of one k, and what follows for the next.
struct Row {
  const float* values;
  const std::int32_t* tops;
  std::int32_t shift;
  std::int32_t is_special;
};
struct Columns {
  const float* values;
  const std::int32_t* tops;
  const std::int32_t* shifts;
  const std::int32_t* is_special;
};

// Arguments of TensorKernels::multiply.
struct Product {
  const DecodedLines& a;
  const DecodedLines& b;
  std::span<std::uint32_t> d;
  const SumRule& rule;
  const Step& step;
  SpecialSums& special;
};

// Appends the indexes of a block's columns, from `first` on, that the masks of its rows name.
void add_special(const Product& product, std::size_t first, std::size_t columns) {
  for (std::size_t row = 0; row < product.a.count; ++row) {
    for (std::size_t i = 0; i < columns; ++i) {
      if (product.special.masks[row].lines.at(i) != 0) {
        product.special.indexes.push_back(row * product.b.count + first + i);
      }
    }
  }
}

namespace lines4 {
constexpr std::size_t kLines = 4;
#include "emulator/operations/tensor_vectors-inl.hpp"
}  // namespace lines4
namespace lines8 {
constexpr std::size_t kLines = 8;
#include "emulator/operations/tensor_vectors-inl.hpp"
}  // namespace lines8
namespace lines16 {
constexpr std::size_t kLines = 16;
#include "emulator/operations/tensor_vectors-inl.hpp"
}  // namespace lines16

// Instruction sets for which the kernels are compiled.
struct Baseline {
  using F32Accumulators = lines4::F32Accumulators;
  using F16Accumulators = lines4::F16Accumulators;

  template <Element kElement>
  static void decode(const Lines& lines, DecodedLines& to) {
    lines4::decode_as<kElement>(lines, to);
  }
  template <typename Accumulators>
  static void floats(const Product& product) {
    lines4::multiply_floats<Accumulators>(product);
  }
  static void integers(const Product& product) { lines4::multiply_integers(product); }
};

#ifdef __x86_64__
struct Avx2 {
  using F32Accumulators = lines8::F32Accumulators;
  using F16Accumulators = lines8::F16Accumulators;

  template <Element kElement>
  [[gnu::target("avx2,fma")]] static void decode(const Lines& lines, DecodedLines& to) {
    lines8::decode_as<kElement>(lines, to);
  }
  template <typename Accumulators>
  [[gnu::target("avx2,fma")]] static void floats(const Product& product) {
    lines8::multiply_floats<Accumulators>(product);
  }
  [[gnu::target("avx2,fma")]] static void integers(const Product& product) {
    lines8::multiply_integers(product);
  }
};

struct Avx512 {
  using F32Accumulators = lines16::F32Accumulators;
  using F16Accumulators = lines16::F16Accumulators;

  template <Element kElement>
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]] static void decode(
      const Lines& lines, DecodedLines& to) {
    lines16::decode_as<kElement>(lines, to);
  }
  template <typename Accumulators>
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]] static void floats(
      const Product& product) {
    lines16::multiply_floats<Accumulators>(product);
  }
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]] static void integers(
      const Product& product) {
    lines16::multiply_integers(product);
  }
};
#endif

template <typename InstructionSet, bool kIsFloat>
void multiply_with(const DecodedLines& a, const DecodedLines& b, std::span<std::uint32_t> d,
                   const SumRule& rule, const Step& step, SpecialSums& special) {
  const Product product{a, b, d, rule, step, special};
  if constexpr (!kIsFloat) {
    InstructionSet::integers(product);
  } else if (rule.accumulator == Accumulator::kF16) {
    InstructionSet::template floats<typename InstructionSet::F16Accumulators>(product);
  } else {
    InstructionSet::template floats<typename InstructionSet::F32Accumulators>(product);
  }
}

using KernelTable = std::array<TensorKernels, kElementCount - 1>;  // bits have no kernel

template <typename InstructionSet>
constexpr KernelTable kernels_with() {
  return []<std::size_t... kElements>(std::index_sequence<kElements...>) {
    return KernelTable{TensorKernels{
        &InstructionSet::template decode<static_cast<Element>(kElements)>,
        &multiply_with<InstructionSet, is_float(static_cast<Element>(kElements))>}...};
  }(std::make_index_sequence<kElementCount - 1>{});
}

}  // namespace

const TensorKernels& tensor_kernels(Element element) {
  static const KernelTable kKernels = [] {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
        __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0) {
      return kernels_with<Avx512>();
    }
    if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
      return kernels_with<Avx2>();
    }
#endif
    return kernels_with<Baseline>();
  }();
  return kKernels.at(static_cast<std::size_t>(element));
}

}  // namespace emu
