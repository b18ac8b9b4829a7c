// Bits: and, or, xor, not, shl, shr, bfi, prmt, popc, clz, brev.
#include <array>
#include <bit>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};

// Shifts by more than the width shift everything out.
struct Shl {
  template <typename T>
  T operator()(T a, std::uint32_t distance) const {
    return distance >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << distance);
  }
};
struct Shr {
  template <typename T>
  T operator()(T a, std::uint32_t distance) const {
    if (distance >= 8 * sizeof(T)) {
      return a < 0 ? static_cast<T>(-1) : T{0};
    }
    return static_cast<T>(a >> distance);
  }
};

template <typename F>
void decode_shift(Decoder& decoder) {
  const Type type = decoder.take_type();
  decoder.expect_operands(3);
  decoder.add(decoder.destination(0, bits_of(type)));
  decoder.add(decoder.source(1, type));
  decoder.add(decoder.source(2, Type::kU32));
  decoder.op().code = pick_integer(
      decoder, type, []<typename T>() -> Code { return &run_binary<T, T, std::uint32_t, F>; });
}

enum class Logic : std::uint8_t { kAnd, kOr, kXor, kNot };

// Slots: the destination, and one source or two.
struct PredicateLogic {
  std::array<bool, 2> is_negated{};  // of each source
};

template <Logic kLogic>
Outcome run_predicates(Warp& warp, const Op& op, Lanes lanes) {
  const auto& is_negated = op.get<PredicateLogic>().is_negated;
  const Lanes a = warp.read_predicate(op.slots[1]) ^ (is_negated[0] ? kAllLanes : 0);
  if constexpr (kLogic == Logic::kNot) {
    warp.write_predicate(op.slots[0], ~a, lanes, warp.valid(op.slots[1]));
  } else {
    const Lanes b = warp.read_predicate(op.slots[2]) ^ (is_negated[1] ? kAllLanes : 0);
    const Lanes result = kLogic == Logic::kAnd ? a & b : kLogic == Logic::kOr ? a | b : a ^ b;
    warp.write_predicate(op.slots[0], result, lanes,
                         warp.valid(op.slots[1]) & warp.valid(op.slots[2]));
  }
  return Outcome::kDone;
}

template <Logic kLogic, typename F>
void decode_logic(Decoder& decoder) {
  constexpr std::size_t kSources = kLogic == Logic::kNot ? 1 : 2;
  const Type type = decoder.take_type();
  if (type == Type::kPred) {
    decoder.expect_operands(kSources + 1);
    decoder.add(decoder.destination(0, 1));
    PredicateLogic logic;
    for (std::size_t i = 0; i < kSources; ++i) {
      logic.is_negated.at(i) = decoder.add_predicate(i + 1);
    }
    decoder.op().details.set(logic);
    decoder.op().code = &run_predicates<kLogic>;
    return;
  }
  add_alike(decoder, type, kSources);
  decoder.op().code = pick_integer(decoder, type, []<typename T>() -> Code {
    if constexpr (kLogic == Logic::kNot) {
      return &run_unary<T, T, F>;
    } else {
      return &run_binary<T, T, T, F>;
    }
  });
}

// Puts the lowest `count` bits of a into b, from `first` on.
Outcome run_bfi(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<std::uint32_t>(op.slots[1]);
  const auto b = warp.read<std::uint32_t>(op.slots[2]);
  const auto first = warp.read<std::uint32_t>(op.slots[3]);
  const auto count = warp.read<std::uint32_t>(op.slots[4]);
  Vec<std::uint32_t> d;
  Lanes valid = kAllLanes;
  for (std::size_t source = 1; source <= 4; ++source) {
    valid &= warp.valid(op.slots.at(source));
  }
  for (int i = 0; i < kLanes; ++i) {
    const std::uint32_t from = first.lanes[i] & 0xFFU;
    const std::uint32_t bits = count.lanes[i] & 0xFFU;
    const std::uint64_t ones = bits >= 32 ? 0xFFFFFFFFU : (std::uint64_t{1} << bits) - 1;
    const std::uint32_t mask = from >= 32 ? 0 : static_cast<std::uint32_t>(ones << from);
    const std::uint32_t moved = from >= 32 ? 0 : a.lanes[i] << from;
    d.lanes[i] = (b.lanes[i] & ~mask) | (moved & mask);
  }
  warp.write(op.slots[0], d, lanes, valid);
  return Outcome::kDone;
}

void decode_bfi(Decoder& decoder) {
  decoder.require("b32");
  decoder.expect_operands(5);
  decoder.add(decoder.destination(0, 32));
  for (std::size_t i = 1; i < 5; ++i) {
    decoder.add(decoder.source(i, Type::kB32));
  }
  decoder.op().code = &run_bfi;
}

// Takes four bytes of the eight in a and b. A selector's highest bit spreads the byte's sign.
struct Permute {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t selectors) const {
    const std::uint64_t bytes = std::uint64_t{b} << 32U | a;
    std::uint32_t result = 0;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t selector = selectors >> (4 * i) & 0xFU;
      std::uint32_t byte = static_cast<std::uint32_t>(bytes >> (8 * (selector & 7U))) & 0xFFU;
      if ((selector & 8U) != 0) {
        byte = (byte & 0x80U) != 0 ? 0xFFU : 0;
      }
      result |= byte << (8 * i);
    }
    return result;
  }
};

void decode_prmt(Decoder& decoder) {
  decoder.require("b32");
  add_alike(decoder, Type::kB32, 3);
  decoder.op().code =
      &run_ternary<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, Permute>;
}

struct CountOnes {
  std::uint32_t operator()(std::uint32_t a) const {
    return static_cast<std::uint32_t>(std::popcount(a));
  }
};
struct CountLeadingZeros {
  std::uint32_t operator()(std::uint32_t a) const {
    return static_cast<std::uint32_t>(std::countl_zero(a));
  }
};
struct ReverseBits {
  std::uint32_t operator()(std::uint32_t a) const {
    std::uint32_t result = 0;
    for (int i = 0; i < 32; ++i) {
      result = result << 1U | (a & 1U);
      a >>= 1U;
    }
    return result;
  }
};

template <typename F>
void decode_bits(Decoder& decoder) {
  decoder.require("b32");
  add_alike(decoder, Type::kB32, 1);
  decoder.op().code = &run_unary<std::uint32_t, std::uint32_t, F>;
}

constexpr std::array kOperations = {
    Operation{"and", &decode_logic<Logic::kAnd, And>},
    Operation{"or", &decode_logic<Logic::kOr, Or>},
    Operation{"xor", &decode_logic<Logic::kXor, Xor>},
    Operation{"not", &decode_logic<Logic::kNot, Not>},
    Operation{"shl", &decode_shift<Shl>},
    Operation{"shr", &decode_shift<Shr>},
    Operation{"bfi", &decode_bfi},
    Operation{"prmt", &decode_prmt},
    Operation{"popc", &decode_bits<CountOnes>},
    Operation{"clz", &decode_bits<CountLeadingZeros>},
    Operation{"brev", &decode_bits<ReverseBits>},
};

}  // namespace

std::span<const Operation> bit_operations() {
  return kOperations;
}

}  // namespace emu
