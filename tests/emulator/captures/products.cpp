// Micro-kernels of mma.sync.
#include <array>
#include <bit>

#include <fmt/format.h>

#include "emulator/captures/accumulators.hpp"
#include "emulator/captures/builder.hpp"
#include "emulator/captures/formats.hpp"

namespace captures {

std::string_view name_of(Number number) {
  constexpr std::array<std::string_view, 8> kNames = {"bf16", "f16", "e4m3", "e5m2",
                                                      "s8",   "u8",  "f32",  "s32"};
  return kNames.at(static_cast<std::size_t>(number));
}
std::string_view name_of(Nasty nasty) {
  constexpr std::array<std::string_view, 6> kNames = {"random",  "wide",      "cancelling",
                                                      "special", "subnormal", "huge"};
  return kNames.at(static_cast<std::size_t>(nasty));
}

namespace {

const ShortFormat& format_of(Number number) {
  return number == Number::kF16    ? kBinary16
         : number == Number::kBF16 ? kBFloat16
         : number == Number::kE5M2 ? kE5M2
                                   : kE4M3;
}

}  // namespace

Bytes accumulators(Number of, Nasty nasty, std::size_t count, std::uint64_t seed) {
  if (of == Number::kS8 || of == Number::kU8) {
    return matrix_elements(Number::kS32, nasty, count * 4, seed);
  }
  const auto size = static_cast<std::size_t>(bits_of(of)) / 8;
  const Bytes factors = matrix_elements(of, nasty, 2 * count * size, seed);
  Random random(seed);
  std::vector<std::uint32_t> words(count);
  const auto factor = [&](std::size_t i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, factors.data() + i * size, size);
    return static_cast<float>(format_of(of).value(bits));
  };
  for (std::size_t i = 0; i < count; ++i) {
    const float product = factor(2 * i) * factor(2 * i + 1);
    words[i] = std::bit_cast<std::uint32_t>(product);
    if ((words[i] & 0x7F800000U) != 0x7F800000U && words[i] << 1U != 0) {
      words[i] ^= static_cast<std::uint32_t>(random.below(1U << 12U));
    } else if (product != product) {
      words[i] = 0x7FC00000U;  // the host's own NaN may have a sign
    }
  }
  return bytes_of(words);
}

namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kBlocks = 8;
constexpr std::size_t kWarps = kThreads / 32 * kBlocks;

// Element (row, k) of a warp's A, and (column, k) of its B, as the fragments of m16n8k32 have them.
std::uint8_t a_byte(const Bytes& a, std::size_t warp, std::size_t row, std::size_t k) {
  const std::size_t lane = row % 8 * 4 + k % 16 / 4;
  const std::size_t word = row / 8 + k / 16 * 2;
  return static_cast<std::uint8_t>(a[((warp * 32 + lane) * 4 + word) * 4 + k % 4]);
}
std::uint8_t b_byte(const Bytes& b, std::size_t warp, std::size_t column, std::size_t k) {
  const std::size_t lane = column * 4 + k % 16 / 4;
  return static_cast<std::uint8_t>(b[((warp * 32 + lane) * 2 + k / 16) * 4 + k % 4]);
}

std::vector<Bytes> byte_products(const std::vector<Bytes>& inputs, bool is_a_signed,
                                 bool is_b_signed) {
  auto d = values_of<std::uint32_t>(inputs[2]);
  const auto value = [](std::uint8_t byte, bool is_signed) {
    return is_signed && byte >= 128 ? int{byte} - 256 : int{byte};
  };
  for (std::size_t i = 0; i < d.size(); ++i) {
    const std::size_t warp = i / 128;
    const std::size_t lane = i / 4 % 32;
    const std::size_t row = lane / 4 + i % 4 / 2 * 8;
    const std::size_t column = lane % 4 * 2 + i % 2;
    for (std::size_t k = 0; k < 32; ++k) {
      d[i] += static_cast<std::uint32_t>(value(a_byte(inputs[0], warp, row, k), is_a_signed) *
                                         value(b_byte(inputs[1], warp, column, k), is_b_signed));
    }
  }
  return {bytes_of(d)};
}

void add(MicroKernels& to, Number a, Number b, Nasty nasty, bool has_accumulators) {
  const bool is_float = a == Number::kF16 || a == Number::kBF16;
  const std::string type =
      fmt::format("m16n8k{}.row.col.{}.{}.{}.{}", is_float ? 16 : 32, is_float ? "f32" : "s32",
                  name_of(a), name_of(b), is_float ? "f32" : "s32");
  MicroKernel kernel{.name = fmt::format("mma.{}.{}.{}{}", name_of(a), name_of(b), name_of(nasty),
                                         has_accumulators ? "" : ".zero"),
                     .family = "mma",
                     .ptx = {}};
  kernel.block = {kThreads, 1, 1};
  kernel.grid = {kBlocks, 1, 1};
  const std::uint64_t seed = to.size() * 8;
  kernel.inputs.emplace_back([=] { return matrix_elements(a, nasty, kWarps * 32 * 16, seed); });
  kernel.inputs.emplace_back([=] { return matrix_elements(b, nasty, kWarps * 32 * 8, seed + 1); });
  kernel.inputs.emplace_back([=] {
    return has_accumulators ? accumulators(a, nasty, kWarps * 32 * 4, seed + 2)
                            : Bytes(kWarps * 32 * 16);
  });
  kernel.outputs = {kWarps * 32 * 16};
  set_text(kernel, fmt::format(R"(
  mul.wide.u32 %rd10, %r3, 16;
  mul.wide.u32 %rd11, %r3, 8;
  add.s64 %rd12, %rd1, %rd10;
  add.s64 %rd13, %rd2, %rd11;
  add.s64 %rd14, %rd3, %rd10;
  add.s64 %rd15, %rd4, %rd10;
  ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd12];
  ld.global.v2.u32 {{%r14, %r15}}, [%rd13];
  ld.global.v4.u32 {{%r16, %r17, %r18, %r19}}, [%rd14];
  mma.sync.aligned.{} {{%r20, %r21, %r22, %r23}}, {{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {{%r16, %r17, %r18, %r19}};
  st.global.v4.u32 [%rd15], {{%r20, %r21, %r22, %r23}};)",
                               type));
  if (!is_float) {
    kernel.model = [=](const std::vector<Bytes>& inputs) {
      return byte_products(inputs, a == Number::kS8, b == Number::kS8);
    };
  }
  to.push_back(std::move(kernel));
}

}  // namespace

void add_products(MicroKernels& to) {
  using enum Nasty;
  for (const Number number : {Number::kBF16, Number::kF16}) {
    for (const Nasty nasty : {kRandom, kWide, kCancelling, kSpecial, kSubnormal, kHuge}) {
      add(to, number, number, nasty, true);
      add(to, number, number, nasty, false);
    }
  }
  for (const Nasty nasty : {kRandom, kCancelling, kHuge, kSpecial}) {
    add(to, Number::kS8, Number::kS8, nasty, true);
    add(to, Number::kS8, Number::kU8, nasty, true);
    add(to, Number::kU8, Number::kS8, nasty, true);
  }
}

}  // namespace captures
