// Micro-kernels of conversions to shorter floats: every boundary between two neighbours, what lies
// one step of binary32 beside it, and any bits.
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "emulator/captures/builder.hpp"
#include "emulator/captures/formats.hpp"

namespace captures {
namespace {

using Operands = std::array<std::uint64_t, 4>;

// Numbers, the middles between neighbours, and the steps beside each.
std::vector<std::uint64_t> boundaries(const ShortFormat& format) {
  std::vector<std::uint64_t> all;
  const auto half = std::uint32_t{1} << static_cast<unsigned>(format.bits() - 1);
  for (std::uint32_t bits = 0; bits + 1 < half; ++bits) {
    const long double here = format.value(bits);
    const long double next = format.value(bits + 1);
    if (std::isnan(next) || std::isinf(here)) {
      break;
    }
    const long double middle =
        std::isinf(next) ? here + (here - format.value(bits - 1)) / 2 : (here + next) / 2;
    for (const long double value : {here, middle}) {
      const auto word = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      for (const std::uint32_t near : {word - 1, word, word + 1}) {
        if (value != 0 || near <= word + 1) {
          const std::uint32_t sign = (bits & 1U) << 31U;
          all.push_back((near == 0xFFFFFFFFU ? 0 : near) ^ sign);
        }
      }
    }
  }
  return all;
}

// A multiple of 2048 of them: boundaries first, edges and any bits behind them.
std::vector<std::uint64_t> inputs_for(const ShortFormat& format, std::uint64_t seed) {
  std::vector<std::uint64_t> values = boundaries(format);
  const std::size_t count = (values.size() + 8192 + 2047) / 2048 * 2048;
  const auto others = floats(count - values.size(), 32, {0, 1}, seed);
  values.insert(values.end(), others.begin(), others.end());
  return values;
}

template <const ShortFormat& kFormat>
std::vector<std::uint64_t> fill(std::size_t /*count*/, int /*bits*/, Position position,
                                std::uint64_t seed) {
  std::vector<std::uint64_t> values = inputs_for(kFormat, seed - seed % 16);
  if (position.index == 1) {  // the other half has them in another order
    std::vector<std::uint64_t> turned(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      turned[i] = values[values.size() - 1 - i];
    }
    return turned;
  }
  return values;
}

template <const ShortFormat& kFormat>
void add(MicroKernels& to, std::string_view name, int result_bits, bool is_pair, bool saturates) {
  LaneOperation made{.name = std::string(name),
                     .family = "convert-boundaries",
                     .text = fmt::format("{} $d, $a{};", name, is_pair ? ", $b" : "")};
  made.count = inputs_for(kFormat, 1).size();
  made.result_bits = result_bits;
  made.operands.assign(is_pair ? 2 : 1, {32, &fill<kFormat>});
  made.model = [=](const Operands& x) -> std::uint64_t {
    const auto one = [&](std::uint64_t bits) -> std::uint64_t {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      return kFormat.nearest(value, saturates);
    };
    return is_pair ? one(x[0]) << static_cast<unsigned>(kFormat.bits()) | one(x[1]) : one(x[0]);
  };
  add_lane_operation(to, made);
}

// All 65536 halves of f16x2, of which one conversion makes bytes.
void add_from_halves(MicroKernels& to, std::string_view name, const ShortFormat& format) {
  LaneOperation made{
      .name = std::string(name), .family = "convert-all", .text = fmt::format("{} $d, $a;", name)};
  made.count = 65536;
  made.result_bits = 16;
  made.operands = {{32, &counted_pairs}};
  made.model = [&format](const Operands& x) -> std::uint64_t {
    const auto one = [&](std::uint64_t bits) {
      return format.nearest(kBinary16.value(static_cast<std::uint32_t>(bits & 0xFFFFU)), true);
    };
    return one(x[0] >> 16U) << 8U | one(x[0]);
  };
  add_lane_operation(to, made);
}

}  // namespace

void add_narrowing(MicroKernels& to) {
  add<kBinary16>(to, "cvt.rn.f16.f32", 16, false, false);
  add<kBFloat16>(to, "cvt.rn.bf16.f32", 16, false, false);
  add<kBinary16>(to, "cvt.rn.f16x2.f32", 32, true, false);
  add<kBFloat16>(to, "cvt.rn.bf16x2.f32", 32, true, false);
  add<kE4M3>(to, "cvt.rn.satfinite.e4m3x2.f32", 16, true, true);
  add<kE5M2>(to, "cvt.rn.satfinite.e5m2x2.f32", 16, true, true);
  add_from_halves(to, "cvt.rn.satfinite.e4m3x2.f16x2", kE4M3);
  add_from_halves(to, "cvt.rn.satfinite.e5m2x2.f16x2", kE5M2);
}

}  // namespace captures
