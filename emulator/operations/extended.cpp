// Arithmetic of extended precision, with a carry: add.cc, addc, sub.cc, subc, mad.cc, madc.
#include "emulator/operations/extended.hpp"

#include <array>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

// Slots: the destination, the sources, and last the carry, a predicate that PTX gives no name. A
// difference is the sum with the subtrahend's complement, so its carry is set if it borrows
// nothing: CUDA's division of 128-bit numbers reads it by addc behind subc.cc.
template <Extended kExtended, typename T>
Outcome run_extended(Warp& warp, const Op& op, Lanes lanes) {
  using Word = Unsigned<T>;
  using Wide = std::conditional_t<sizeof(T) == 8, UInt128, std::uint64_t>;
  constexpr bool kIsMad = kExtended == Extended::kMadLow || kExtended == Extended::kMadHigh;
  constexpr std::size_t kCarry = kIsMad ? 4 : 3;
  const auto use = op.get<CarryUse>();
  const auto a = warp.read<T>(op.slots[1]);
  const auto b = warp.read<T>(op.slots[2]);
  const auto c = warp.read<T>(op.slots[kIsMad ? 3 : 2]);
  const Lanes carry = use.reads ? warp.read_predicate(op.slots[kCarry]) : 0;
  Lanes valid = warp.valid(op.slots[1]) & warp.valid(op.slots[2]) &
                (use.reads ? warp.valid(op.slots[kCarry]) : kAllLanes);
  if constexpr (kIsMad) {
    valid &= warp.valid(op.slots[3]);
  }
  Vec<Word> results;
  Lanes carried = 0;
  for (int i = 0; i < kLanes; ++i) {
    const Wide carry_in =
        use.reads ? carry >> static_cast<unsigned>(i) & 1U : kExtended == Extended::kSub;
    T first = a.lanes[i];
    T second = b.lanes[i];
    if constexpr (kIsMad) {
      first =
          kExtended == Extended::kMadLow ? low_product(first, second) : high_product(first, second);
      second = c.lanes[i];
    }
    const Wide x = static_cast<Word>(first);
    const Wide y =
        kExtended == Extended::kSub ? static_cast<Word>(~second) : static_cast<Word>(second);
    const Wide sum = x + y + carry_in;
    results.lanes[i] = static_cast<Word>(sum);
    carried |= static_cast<Lanes>(sum >> (8 * sizeof(T)) & 1U) << static_cast<unsigned>(i);
  }
  warp.write(op.slots[0], results, lanes, valid);
  if (use.writes) {
    warp.write_predicate(op.slots[kCarry], carried, lanes, valid);
  }
  return Outcome::kDone;
}

template <typename T>
Code extended_code(Extended extended) {
  switch (extended) {
    case Extended::kAdd:
      return &run_extended<Extended::kAdd, T>;
    case Extended::kSub:
      return &run_extended<Extended::kSub, T>;
    case Extended::kMadLow:
      return &run_extended<Extended::kMadLow, T>;
    case Extended::kMadHigh:
      return &run_extended<Extended::kMadHigh, T>;
  }
  return nullptr;
}

template <Extended kExtended>
void decode_with_carry(Decoder& decoder) {
  decode_extended(decoder, kExtended, {.reads = true, .writes = decoder.take("cc")});
}

void decode_madc(Decoder& decoder) {
  const bool is_low = decoder.take_one_of({"lo", "hi"}) == "lo";
  decode_extended(decoder, is_low ? Extended::kMadLow : Extended::kMadHigh,
                  {.reads = true, .writes = decoder.take("cc")});
}

constexpr std::array kOperations = {
    Operation{"addc", &decode_with_carry<Extended::kAdd>},
    Operation{"subc", &decode_with_carry<Extended::kSub>},
    Operation{"madc", &decode_madc},
};

}  // namespace

void decode_extended(Decoder& decoder, Extended extended, CarryUse use) {
  const Type type = decoder.take_type();
  if (bits_of(type) < 32) {
    decoder.fail("unsupported type");
  }
  add_same_type(decoder, type, extended == Extended::kAdd || extended == Extended::kSub ? 2 : 3);
  decoder.add(decoder.carry());
  decoder.op().details.set(use);
  decoder.op().code = pick_integer(decoder, type, [&]<typename T>() -> Code {
    if constexpr (sizeof(T) < 4) {
      return nullptr;
    } else {
      return extended_code<T>(extended);
    }
  });
}

std::span<const Operation> extended_operations() {
  return kOperations;
}

}  // namespace emu
