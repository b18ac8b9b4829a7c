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

/// Returns the bits of a lane's result that do not depend on the sources that nothing has written,
/// such as all of x & 0 and x ^ x, and the low ones of x << 8: computes it for many values of
/// these, the same for those of one register.
template <typename F, typename To, typename... From>
[[gnu::noinline]] std::uint64_t independent_bits(const Warp& warp, const Op& op, int lane) {
  using Bits = std::make_unsigned_t<To>;
  constexpr std::size_t kSources = sizeof...(From);
  const auto compute = [&]<std::size_t... kNumbers>(std::index_sequence<kNumbers...>,
                                                    const std::uint64_t* values) {
    return static_cast<Bits>(static_cast<To>(F{}(static_cast<From>(values[kNumbers])...)));
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
  constexpr auto kAll = static_cast<Bits>(~Bits{0});
  const Bits result = compute_with(0, 0);
  Bits varying = 0;
  // Whether all bits vary.
  const auto probe = [&](std::uint64_t odd, std::uint64_t even) {
    varying |= compute_with(odd, even) ^ result;
    return varying == kAll;
  };
  constexpr std::uint64_t kEven = 0x5555555555555555;
  if (probe(~0ULL, ~0ULL) || probe(kEven, kEven) || probe(~kEven, ~kEven)) {
    return 0;  // as nearly always
  }
  std::vector<std::uint64_t> probes = {0,
                                       ~0ULL,
                                       kEven,
                                       ~kEven,
                                       0x8000800080008000,
                                       0x7FFF7FFF7FFF7FFF,
                                       0x8000000080000000,
                                       0x7FFFFFFF7FFFFFFF,
                                       0x8000000000000000};
  const std::size_t patterns = probes.size();
  for (std::size_t i = 0; i < kSources; ++i) {
    if (unknown[i] == 0) {
      probes.insert(probes.end(), {values[i], values[i] - 1, values[i] + 1});
    }
  }
  for (std::uint64_t small = 1; small <= 64; ++small) {
    probes.push_back(small);
  }
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (registers < 2) {
      if (probe(probes[i], probes[i])) {
        return 0;
      }
      continue;
    }
    // Tries all pairs of unknown values where nothing varies yet, and else only those of patterns.
    for (std::size_t j = 0; j < probes.size() && (varying == 0 || std::max(i, j) < patterns); ++j) {
      if (probe(probes[i], probes[j])) {
        return 0;
      }
    }
  }
  return static_cast<Bits>(~varying);
}

/// Finds which bits of the results of some lanes do not depend on what nothing has written. Returns
/// the lanes of which it is all, and adds the bits of the others to `bits`.
template <typename F, typename To, typename... From>
Lanes independent_lanes(const Warp& warp, const Op& op, Lanes lanes, Vec<std::uint64_t>& bits) {
  Lanes independent = 0;
  for_each_lane(lanes, [&](int lane) {
    bits.lanes[lane] = independent_bits<F, To, From...>(warp, op, lane);
    const auto all = static_cast<std::make_unsigned_t<To>>(~To{0});
    independent |= bits.lanes[lane] == all ? lane_bit(lane) : 0;
  });
  return independent;
}

/// Keeps which bits of the lanes' values were written.
template <typename T>
void keep_partial(Warp& warp, Slot slot, Lanes lanes, const Vec<T>& values,
                  const Vec<std::uint64_t>& written_bits) {
  for_each_lane(lanes, [&](int lane) {
    warp.partial_values.keep(slot, lane, static_cast<std::make_unsigned_t<T>>(values.lanes[lane]),
                             written_bits.lanes[lane]);
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
    if constexpr (std::is_integral_v<To> && (std::is_integral_v<From> && ...)) {
      if ((valid & lanes) != lanes) [[unlikely]] {
        Vec<std::uint64_t> bits;
        const Lanes unknown = lanes & ~valid;
        valid |= independent_lanes<F, To, From...>(warp, op, unknown, bits);
        const Vec<To> results = compute(warp.read<From>(op.slots[kSources + 1])...);
        warp.write(op.slots[0], results, lanes, valid);
        keep_partial(warp, op.slots[0], unknown & ~valid, results, bits);
        return;
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
