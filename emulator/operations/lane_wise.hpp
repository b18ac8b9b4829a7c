// Operations that compute each lane's result from the same lane's operands.
#pragma once

#include <cstdint>

#include "emulator/machine/warp.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

// Slots are the destination, then the sources. A result is initialised where all its sources are.

template <typename To, typename From, typename F>
Outcome run_unary(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<From>(op.slots[1]);
  Vec<To> d;
  for (int i = 0; i < kLanes; ++i) {
    d.lanes[i] = F{}(a.lanes[i]);
  }
  warp.write(op.slots[0], d, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

template <typename To, typename A, typename B, typename F>
Outcome run_binary(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<A>(op.slots[1]);
  const auto b = warp.read<B>(op.slots[2]);
  Vec<To> d;
  for (int i = 0; i < kLanes; ++i) {
    d.lanes[i] = F{}(a.lanes[i], b.lanes[i]);
  }
  warp.write(op.slots[0], d, lanes, warp.valid(op.slots[1]) & warp.valid(op.slots[2]));
  return Outcome::kDone;
}

template <typename To, typename A, typename B, typename C, typename F>
Outcome run_ternary(Warp& warp, const Op& op, Lanes lanes) {
  const auto a = warp.read<A>(op.slots[1]);
  const auto b = warp.read<B>(op.slots[2]);
  const auto c = warp.read<C>(op.slots[3]);
  Vec<To> d;
  for (int i = 0; i < kLanes; ++i) {
    d.lanes[i] = F{}(a.lanes[i], b.lanes[i], c.lanes[i]);
  }
  warp.write(op.slots[0], d, lanes,
             warp.valid(op.slots[1]) & warp.valid(op.slots[2]) & warp.valid(op.slots[3]));
  return Outcome::kDone;
}

/// Calls pick.operator()<T>() with the integer type of a width and sign, as C++ has it.
template <typename Pick>
Code pick_integer(Decoder& decoder, Type type, Pick&& pick) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return pick.template operator()<std::uint16_t>();
    case Type::kS16:
      return pick.template operator()<std::int16_t>();
    case Type::kB32:
    case Type::kU32:
      return pick.template operator()<std::uint32_t>();
    case Type::kS32:
      return pick.template operator()<std::int32_t>();
    case Type::kB64:
    case Type::kU64:
      return pick.template operator()<std::uint64_t>();
    case Type::kS64:
      return pick.template operator()<std::int64_t>();
    default:
      decoder.fail("unsupported type");
  }
}

/// Destination and `sources` sources, all of the type.
inline void add_alike(Decoder& decoder, Type type, std::size_t sources) {
  decoder.expect_operands(sources + 1);
  decoder.add(decoder.destination(0, bits_of(type)));
  for (std::size_t i = 1; i <= sources; ++i) {
    decoder.add(decoder.source(i, type));
  }
}

}  // namespace emu
