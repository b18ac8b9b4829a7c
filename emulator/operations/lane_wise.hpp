// Lane-wise instructions: the result of a lane is a function of the lane's source values.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "emulator/machine/warp.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

/// Whether the result of a lane does not depend on the sources that nothing has written, such as
/// x & 0 and x ^ x: computes it for many values of these, the same for those of one register.
template <typename F, typename To, typename... From>
[[gnu::noinline]] bool is_independent(const Warp& warp, const Op& op, int lane) {
  constexpr std::size_t kSources = sizeof...(From);
  const auto compute = [&]<std::size_t... kNumbers>(std::index_sequence<kNumbers...>,
                                                    const std::uint64_t* values) {
    return static_cast<To>(F{}(static_cast<From>(values[kNumbers])...));
  };
  std::array<std::uint64_t, kSources> values{};
  std::array<std::uint64_t, kSources> written{};  // bits that were
  std::array<std::size_t, kSources> unknown{};  // number of its register among the unknown, from 1
  std::size_t registers = 0;
  const auto read = [&]<typename T>(T /*type*/, std::size_t i) {
    const Slot slot = op.slots[i + 1];
    values[i] = static_cast<std::uint64_t>(warp.read_lane<T>(slot, lane));
    if ((warp.valid(slot) & lane_bit(lane)) != 0) {
      return;
    }
    for (std::size_t j = 0; j < i && unknown[i] == 0; ++j) {
      unknown[i] = op.slots[j + 1] == slot ? unknown[j] : 0;
    }
    unknown[i] = unknown[i] == 0 ? ++registers : unknown[i];
    written[i] = warp.partial_values.written_bits(
        slot, lane, static_cast<std::make_unsigned_t<T>>(warp.read_lane<T>(slot, lane)));
  };
  std::size_t next = 0;
  (read(From{}, next++), ...);
  const auto compute_with = [&](std::uint64_t odd, std::uint64_t even) {
    for (std::size_t i = 0; i < kSources; ++i) {
      if (unknown[i] != 0) {
        values[i] = (values[i] & written[i]) | ((unknown[i] % 2 == 1 ? odd : even) & ~written[i]);
      }
    }
    return compute(std::make_index_sequence<kSources>(), values.data());
  };
  const To result = compute_with(0, 0);
  if (compute_with(~0ULL, ~0ULL) != result) {
    return false;  // as nearly always
  }
  std::vector<std::uint64_t> probes = {0,
                                       ~0ULL,
                                       0x5555555555555555,
                                       0xAAAAAAAAAAAAAAAA,
                                       0x8000800080008000,
                                       0x7FFF7FFF7FFF7FFF,
                                       0x8000000080000000,
                                       0x7FFFFFFF7FFFFFFF,
                                       0x8000000000000000};
  for (std::size_t i = 0; i < kSources; ++i) {
    if (unknown[i] == 0) {
      probes.insert(probes.end(), {values[i], values[i] - 1, values[i] + 1});
    }
  }
  for (std::uint64_t small = 1; small <= 64; ++small) {
    probes.push_back(small);
  }
  return std::ranges::all_of(probes, [&](std::uint64_t odd) {
    return registers < 2
               ? compute_with(odd, odd) == result
               : std::ranges::all_of(
                     probes, [&](std::uint64_t even) { return compute_with(odd, even) == result; });
  });
}

/// Runs F on each lane. Slots: the destination, then the sources. A result is initialised where all
/// its sources are, and where whole numbers do not depend on those that are not.
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
    Lanes valid = (warp.valid(op.slots[kSources + 1]) & ...);
    if constexpr (std::is_integral_v<To> && sizeof...(From) > 1 &&
                  (std::is_integral_v<From> && ...)) {
      if ((valid & lanes) != lanes) [[unlikely]] {
        for_each_lane(lanes & ~valid, [&](int lane) {
          valid |= is_independent<F, To, From...>(warp, op, lane) ? lane_bit(lane) : 0;
        });
      }
    }
    warp.write(op.slots[0], compute(warp.read<From>(op.slots[kSources + 1])...), lanes, valid);
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
