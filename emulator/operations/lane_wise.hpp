// Lane-wise instructions: the result of a lane is a function of the lane's source values.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "emulator/machine/warp.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

/// Runs F on each lane. Slots: the destination, then the sources. A result is initialised where all
/// its sources are.
template <typename F, typename To, typename... From>
Outcome run_lane_wise(Warp& warp, const Op& op, Lanes lanes) {
  const auto compute = [](const Vec<From>&... sources) {
    Vec<To> results;
    for (int i = 0; i < kLanes; ++i) {
      results.lanes[i] = static_cast<To>(F{}(sources.lanes[i]...));
    }
    return results;
  };
  const auto run = [&]<std::size_t... kSources>(std::index_sequence<kSources...>) {
    warp.write(op.slots[0], compute(warp.read<From>(op.slots[kSources + 1])...), lanes,
               (warp.valid(op.slots[kSources + 1]) & ...));
  };
  run(std::index_sequence_for<From...>{});
  return Outcome::kDone;
}

/// Calls pick.operator()<T>() with the C++ integer type T of this width and sign.
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

/// Minimum and maximum of two floats. NaN loses to a number; -0 is less than 0.
inline float lesser_number(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) ? b : a;
  }
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
inline float greater_number(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) ? b : a;
  }
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}

/// Adds a destination and `sources` sources, all of this type.
inline void add_same_type(Decoder& decoder, Type type, std::size_t sources) {
  decoder.add_operands(bits_of(type), std::vector(sources, type));
}

/// Decodes add, sub, mul, mad, div, min, max, neg or abs if its type is a float or a pair of
/// floats; otherwise does nothing and returns false.
bool decode_float(Decoder& decoder);

}  // namespace emu
