// Access to registers of any width as 64-bit values, and to values that all lanes share.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "emulator/machine/warp.hpp"

namespace emu {

template <typename T>
Vec<std::uint64_t> widen(const Vec<T>& values) {
  Vec<std::uint64_t> wide;
  for (int i = 0; i < kLanes; ++i) {
    wide.lanes[i] = values.lanes[i];
  }
  return wide;
}

template <typename T>
Vec<T> narrow_to(const Vec<std::uint64_t>& values) {
  Vec<T> narrow;
  for (int i = 0; i < kLanes; ++i) {
    narrow.lanes[i] = static_cast<T>(values.lanes[i]);
  }
  return narrow;
}

/// Returns the value of the low bits, sign-extended if `has_sign`.
inline std::uint64_t extend_bits(std::uint64_t value, int bits, bool has_sign) {
  const int unused = 64 - bits;
  const std::uint64_t high = value << static_cast<unsigned>(unused);
  return has_sign ? static_cast<std::uint64_t>(static_cast<std::int64_t>(high) >> unused)
                  : high >> static_cast<unsigned>(unused);
}

/// Reads a value that must be the same in all lanes; ends the run with a finding of this kind if it
/// is not.
template <typename T = std::uint32_t>
T uniform_value(Warp& warp, const Op& op, Slot slot, Lanes lanes, FindingKind kind,
                std::string_view what) {
  warp.require_valid(slot, op, lanes, what);
  const auto values = warp.read<T>(slot);
  const T value = values.lanes[std::countr_zero(lanes)];
  for_each_lane(lanes, [&](int lane) {
    if (values.lanes[lane] != value) {
      warp.stop(kind, op, lanes, fmt::format("lanes have different values for {}", what));
    }
  });
  return value;
}

/// Reads a register; bits above its width are zero.
inline Vec<std::uint64_t> read_bits(const Warp& warp, Slot slot, int bits) {
  switch (bits) {
    case 8:
      return widen(warp.read<std::uint8_t>(slot));
    case 16:
      return widen(warp.read<std::uint16_t>(slot));
    case 32:
      return widen(warp.read<std::uint32_t>(slot));
    default:
      return warp.read<std::uint64_t>(slot);
  }
}

/// Writes a register; bits above its width are dropped.
inline void write_bits(Warp& warp, Slot slot, int bits, const Vec<std::uint64_t>& values,
                       Lanes lanes, Lanes valid) {
  switch (bits) {
    case 8:
      warp.write(slot, narrow_to<std::uint8_t>(values), lanes, valid);
      break;
    case 16:
      warp.write(slot, narrow_to<std::uint16_t>(values), lanes, valid);
      break;
    case 32:
      warp.write(slot, narrow_to<std::uint32_t>(values), lanes, valid);
      break;
    default:
      warp.write(slot, values, lanes, valid);
      break;
  }
}

}  // namespace emu
