// tcgen05.mma as a function of memory: every element of D from where the published layouts have its
// operands, and what it touches.
#include "emulator/operations/tcgen05_product.hpp"

#include <bit>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/emulator/tcgen05_reference.hpp"

namespace emu {
namespace {

using reference::UmmaCase;
using reference::UmmaMemories;

unsigned one_of(std::mt19937& random, unsigned count) {
  return static_cast<unsigned>(random() % count);
}

Element small_float(std::mt19937& random) {
  constexpr std::array kElements = {Element::kE4M3, Element::kE5M2, Element::kE2M3, Element::kE3M2,
                                    Element::kE2M1};
  return kElements.at(random() % kElements.size());
}

bool has_bytes_or_more(Element element) {
  return bits_of(element) >= 8;
}

UmmaCase random_case(std::mt19937& random) {
  UmmaCase umma;
  umma.kind = static_cast<UmmaKind>(one_of(random, 4));
  umma.blocks = 1 + one_of(random, 2);
  const bool is_scaled = umma.kind == UmmaKind::kMxF8F6F4;
  umma.rows = (is_scaled ? 128 : 64 << one_of(random, 2)) * (is_scaled ? 1 : umma.blocks);
  if (is_scaled && umma.blocks == 2) {
    umma.rows = 128 << one_of(random, 2);
  }
  umma.columns = 64 * (1 + one_of(random, 4));
  if (!(is_scaled && umma.is_halved()) && one_of(random, 2) == 0) {
    umma.columns = 32 * (1 + one_of(random, 8));
  }
  if (umma.kind == UmmaKind::kF16) {
    umma.is_half_sum = one_of(random, 4) == 0;
    umma.a = umma.b = umma.is_half_sum || one_of(random, 2) == 0 ? Element::kF16 : Element::kBF16;
  } else if (umma.kind == UmmaKind::kI8) {
    umma.a = one_of(random, 2) == 0 ? Element::kS8 : Element::kU8;
    umma.b = one_of(random, 2) == 0 ? Element::kS8 : Element::kU8;
    umma.is_saturating = one_of(random, 2) == 0;
  } else {
    umma.a = small_float(random);
    umma.b = small_float(random);
    umma.is_half_sum = !is_scaled && one_of(random, 4) == 0;
  }
  if (umma.kind != UmmaKind::kI8) {
    umma.is_a_negated = one_of(random, 4) == 0;
    umma.is_b_negated = one_of(random, 4) == 0;
  }
  umma.is_a_in_tensor_memory = has_bytes_or_more(umma.a) && one_of(random, 4) == 0;
  umma.is_a_k_major =
      umma.is_a_in_tensor_memory || !has_bytes_or_more(umma.a) || one_of(random, 2) == 0;
  umma.is_b_k_major = !has_bytes_or_more(umma.b) || one_of(random, 2) == 0;
  umma.adds = one_of(random, 4) != 0;
  umma.swizzle_of_a = one_of(random, 4);
  umma.swizzle_of_b = one_of(random, 4);
  // Rows of the pattern are whole.
  const auto fits = [](unsigned lines, unsigned swizzle, bool is_k_major, Element element) {
    const unsigned elements = (16U << swizzle) / static_cast<unsigned>(bytes_of(element));
    return is_k_major ? swizzle > 0 || lines > 0 : lines % elements == 0;
  };
  if (!fits(umma.columns / umma.blocks, umma.swizzle_of_b, umma.is_b_k_major, umma.b)) {
    umma.swizzle_of_b = 0;
  }
  if (!fits(umma.rows / umma.blocks, umma.swizzle_of_a, umma.is_a_k_major, umma.a)) {
    umma.swizzle_of_a = 0;
  }
  umma.scale_a_byte = one_of(random, 4);
  umma.scale_b_byte = one_of(random, 4);
  umma.lane = umma.blocks == 1 && umma.rows == 64 ? 16 * one_of(random, 2) : 0;
  return umma;
}

// A case's operands, and what D is to be.
struct UmmaOperands {
  std::vector<std::vector<unsigned>> a;
  std::vector<std::vector<unsigned>> b;
  std::vector<int> scales_of_a;
  std::vector<int> scales_of_b;

  UmmaOperands(const UmmaCase& umma, std::mt19937& random) {
    const bool is_rare = one_of(random, 8) == 0;  // with all exponents, infinities and NaNs
    const auto element = [&](Element of) {
      const unsigned any = static_cast<unsigned>(random()) % (1U << bits_of(of));
      if (is_rare || of == Element::kS8 || of == Element::kU8 || bits_of(of) < 8) {
        return any;
      }
      switch (of) {
        case Element::kF16:
          return (any & 0x83FFU) | (0x2C00U + one_of(random, 5) * 0x400U);
        case Element::kBF16:
          return (any & 0x807FU) | (0x3E00U + one_of(random, 5) * 0x80U);
        case Element::kE4M3:
          return any % 128 == 127 ? 0 : any;
        default:
          return any % 128 >= 124 ? 0 : any;
      }
    };
    const auto fill = [&](auto& lines, unsigned count, Element of) {
      lines.resize(count);
      for (auto& line : lines) {
        for (unsigned k = 0; k < umma.depth(); ++k) {
          line.push_back(element(of));
        }
      }
    };
    fill(a, umma.rows, umma.a);
    fill(b, umma.columns, umma.b);
    const auto scale = [&] {
      return static_cast<int>(is_rare ? one_of(random, 256) : 118 + one_of(random, 16));
    };
    for (unsigned row = 0; row < umma.rows; ++row) {
      scales_of_a.push_back(umma.kind == UmmaKind::kMxF8F6F4 ? scale() : 127);
    }
    for (unsigned column = 0; column < umma.columns; ++column) {
      scales_of_b.push_back(umma.kind == UmmaKind::kMxF8F6F4 ? scale() : 127);
    }
  }

  void put(const UmmaCase& umma, UmmaMemories& memories) const {
    for (unsigned row = 0; row < umma.rows; ++row) {
      for (unsigned k = 0; k < umma.depth(); ++k) {
        memories.set_a(row, k, a[row][k]);
      }
    }
    for (unsigned column = 0; column < umma.columns; ++column) {
      for (unsigned k = 0; k < umma.depth(); ++k) {
        memories.set_b(column, k, b[column][k]);
      }
    }
    if (umma.kind == UmmaKind::kMxF8F6F4) {
      for (unsigned row = 0; row < umma.rows; ++row) {
        memories.set_scale_a(row, static_cast<unsigned>(scales_of_a[row]));
      }
      for (unsigned column = 0; column < umma.columns; ++column) {
        memories.set_scale_b(column, static_cast<unsigned>(scales_of_b[column]));
      }
    }
  }

  [[nodiscard]] std::uint32_t sum(const UmmaCase& umma, unsigned row, unsigned column,
                                  std::uint32_t c) const {
    const auto x = reference::numbers(umma.a, a[row], umma.is_a_negated, scales_of_a[row]);
    const auto y = reference::numbers(umma.b, b[column], umma.is_b_negated, scales_of_b[column]);
    c = umma.adds ? c : 0;
    if (umma.kind == UmmaKind::kI8) {
      return reference::whole_sum(x, y, c, umma.is_saturating);
    }
    return umma.is_half_sum ? reference::half_sum(x, y, c & 0xFFFFU, reference::kBlackwell)
                            : reference::float_sum(x, y, c, reference::kBlackwell);
  }
};

std::string text_of_case(const UmmaCase& umma) {
  return fmt::format(
      "kind {} blocks {} {}x{} types {} {} K-major {} {} swizzles {} {} A in tensor "
      "memory {}",
      int(umma.kind), umma.blocks, umma.rows, umma.columns, int(umma.a), int(umma.b),
      umma.is_a_k_major, umma.is_b_k_major, umma.swizzle_of_a, umma.swizzle_of_b,
      umma.is_a_in_tensor_memory);
}

TEST(Tcgen05Product, IsThePublishedSumInItsPlace) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const UmmaCase umma = random_case(random);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, text_of_case(umma)));
    UmmaMemories memories(umma, random);
    const UmmaOperands operands(umma, random);
    operands.put(umma, memories);
    ASSERT_EQ(check_product(memories.product).reason, "");
    auto wanted = memories;
    const auto memory = memories.memory();
    ASSERT_EQ(multiply(memories.product, std::span(memory).first(umma.blocks)).reason, "");
    for (unsigned row = 0; row < umma.rows; ++row) {
      for (unsigned column = 0; column < umma.columns; ++column) {
        std::uint32_t& want = wanted.d(row, column);
        // All of D is in its place; what is in it is looked at here and there.
        want = (row + column * 3 + seed) % 13 == 0 ? operands.sum(umma, row, column, want)
                                                   : memories.d(row, column);
        ASSERT_EQ(memories.d(row, column), want) << "row " << row << " column " << column;
      }
    }
    ASSERT_EQ(memories.tensor, wanted.tensor);
  }
}

std::vector<bool> marked(const std::vector<SharedRange>& ranges, std::size_t block) {
  std::vector<bool> is_there(UmmaMemories::kShared);
  for (const SharedRange& range : ranges) {
    for (std::uint32_t i = 0; range.block == block && i < range.bytes; ++i) {
      EXPECT_FALSE(is_there.at(range.first + i)) << "twice";
      is_there.at(range.first + i) = true;
    }
  }
  return is_there;
}

std::vector<bool> marked(const std::vector<TensorRange>& ranges, std::size_t block) {
  std::vector<bool> is_there(kTensorWords);
  for (const TensorRange& range : ranges) {
    for (std::size_t i = 0; range.block == block && i < range.lanes * range.columns; ++i) {
      const std::size_t at =
          tensor_place(range.lane + i / range.columns, range.column + i % range.columns);
      EXPECT_FALSE(is_there.at(at)) << "twice";
      is_there.at(at) = true;
    }
  }
  return is_there;
}

TEST(Tcgen05Product, TellsAllThatItTouches) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const UmmaCase umma = random_case(random);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, text_of_case(umma)));
    UmmaMemories memories(umma, random);
    const UmmaOperands operands(umma, random);
    operands.put(umma, memories);
    for (std::uint32_t& lanes : memories.product.disabled_lanes) {
      lanes = one_of(random, 2) == 0 ? 0 : static_cast<std::uint32_t>(random());
    }
    const UmmaAccesses accesses = accesses_of(memories.product);
    const auto before = memories.tensor;
    const auto memory = memories.memory();
    ASSERT_EQ(multiply(memories.product, std::span(memory).first(umma.blocks)).reason, "");
    for (unsigned block = 0; block < 2; ++block) {
      ASSERT_EQ(marked(accesses.a, block), memories.is_of_a.at(block));
      ASSERT_EQ(marked(accesses.b, block), memories.is_of_b.at(block));
      ASSERT_EQ(marked(accesses.a_words, block), memories.is_tensor_of_a.at(block));
      ASSERT_EQ(marked(accesses.scales, block), memories.is_of_scales.at(block));
      std::vector<bool> is_of_d(kTensorWords);
      for (unsigned row = 0; row < umma.rows; ++row) {
        for (unsigned column = 0; column < umma.columns; ++column) {
          const reference::Word word = reference::word_of_d(umma, row, column);
          const std::uint32_t disabled =
              memories.product.disabled_lanes.at(word.block * 4 + word.lane / 32);
          if (word.block == block && (disabled >> word.lane % 32 & 1U) == 0) {
            is_of_d[tensor_place(word.lane, UmmaMemories::kColumnOfD + word.column)] = true;
          }
        }
      }
      ASSERT_EQ(marked(accesses.d, block), is_of_d);
      for (std::size_t at = 0; at < kTensorWords; ++at) {
        ASSERT_TRUE(is_of_d[at] || before.at(block)[at] == memories.tensor.at(block)[at]);
      }
    }
  }
}

UmmaCase scaled_case() {
  UmmaCase umma;
  umma.kind = UmmaKind::kMxF8F6F4;
  umma.a = umma.b = Element::kE4M3;
  return umma;
}

TEST(Tcgen05Product, RefusesScalesThatDiffer) {
  std::mt19937 random(1);
  const UmmaCase umma = scaled_case();
  for (const unsigned column :
       {UmmaMemories::kColumnOfScalesOfA, UmmaMemories::kColumnOfScalesOfB}) {
    UmmaMemories memories(umma, random);
    UmmaOperands(umma, random).put(umma, memories);
    const auto memory = memories.memory();
    std::uint32_t& word = memories.tensor[0][tensor_place(64 + 5, column + 1)];
    word ^= 0xFF00;  // of bytes that are not used
    EXPECT_EQ(multiply(memories.product, std::span(memory).first(1)).reason, "");
    word = (word & 0xFFFFFF00) | 7;
    memories.tensor[0][tensor_place(5, column + 1)] &= 0xFFFFFF00;
    memories.tensor[0][tensor_place(32 + 5, column + 1)] &= 0xFFFFFF00;
    EXPECT_EQ(
        multiply(memories.product, std::span(memory).first(1)).reason,
        fmt::format(
            "the copies of {}'s scale of line 37 differ: 0 in lanes from 0 on, but 7 from 64 on",
            column == UmmaMemories::kColumnOfScalesOfA ? 'A' : 'B'));
  }
}

TEST(Tcgen05Product, RefusesPlacesThatAreNotThere) {
  std::mt19937 random(1);
  const auto wrong = [&](const UmmaCase& umma, auto change) {
    UmmaProduct product = UmmaMemories(umma, random).product;
    EXPECT_EQ(check_product(product).reason, "");
    change(product);
    return check_product(product).reason;
  };
  UmmaCase small;
  small.rows = 64;
  UmmaCase in_tensor_memory = small;
  in_tensor_memory.is_a_in_tensor_memory = true;
  UmmaCase halved = scaled_case();
  halved.blocks = 2;
  EXPECT_EQ(wrong({}, [](UmmaProduct& product) { product.d = 449; }),
            "D: 64 columns from column 449 on exceed the 512 columns of tensor memory");
  EXPECT_EQ(wrong({}, [](UmmaProduct& product) { product.d = 16U << 16U; }),
            "D: the first lane is 16, but must be 0");
  EXPECT_EQ(wrong(small, [](UmmaProduct& product) { product.d = 16U << 16U; }), "");
  EXPECT_EQ(wrong(small, [](UmmaProduct& product) { product.d = 32U << 16U; }),
            "D: the first lane is 32, but must be 0 or 16");
  EXPECT_EQ(wrong(in_tensor_memory, [](UmmaProduct& product) { product.d = 16U << 16U; }),
            "A's first lane is 0, but D's is 16");
  EXPECT_EQ(wrong(in_tensor_memory, [](UmmaProduct& product) { product.a = 505; }),
            "A: 8 columns from column 505 on exceed the 512 columns of tensor memory");
  EXPECT_EQ(wrong(scaled_case(), [](UmmaProduct& product) { product.scale_a = 509; }),
            "A's scales: 4 columns from column 509 on exceed the 512 columns of tensor memory");
  EXPECT_EQ(wrong(scaled_case(), [](UmmaProduct& product) { product.scale_b = 1U << 16U; }),
            "B's scales: the first lane is 1, but must be 0");
  EXPECT_EQ(wrong(scaled_case(), [](UmmaProduct& product) { product.scale_b |= 3U << 30U; }), "");
  EXPECT_EQ(
      wrong(halved, [](UmmaProduct& product) { product.instruction ^= 12U << 17U; }),
      "N is 32, but must be a multiple of 64 where scales are split over halves of the lanes");
  EXPECT_EQ(wrong({}, [](UmmaProduct& product) { product.instruction |= 1U << 6U; }),
            "the instruction descriptor 0x8100050: its reserved bits 0x40 must be 0");
  EXPECT_EQ(wrong({}, [](UmmaProduct& product) { product.a ^= 1ULL << 46U; }).substr(0, 15),
            "A's descriptor ");
  EXPECT_EQ(wrong({}, [](UmmaProduct& product) { product.b ^= 1ULL << 46U; }).substr(0, 15),
            "B's descriptor ");
}

}  // namespace
}  // namespace emu
