// Matrix products, bit-exact with the steps of a tensor core.
#include "emulator/operations/tensor_product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "emulator/operations/tensor_kernels.hpp"

namespace emu {
namespace {

constexpr std::size_t kMaxStep = 32;  // elements of floats that are added at once

// Decodes elements of a line, with its scale.
std::span<const Parts> decode_step(const Lines& lines, std::size_t line, const Step& step,
                                   std::array<Parts, kMaxStep>& to) {
  const int scale = lines.scales.empty() ? kScaleBias : lines.scales[line];
  for (std::size_t i = 0; i < step.count; ++i) {
    Parts& parts = to.at(i);
    parts = parts_of(lines.element, lines.get(line, step.first + i));
    parts.significand = lines.is_negated ? -parts.significand : parts.significand;
    parts.exponent += scale - kScaleBias;
    parts.top += scale - kScaleBias;
    parts.is_nan |= scale == kNanScale;
  }
  return std::span<const Parts>(to).first(step.count);
}

std::uint32_t step_sum(const Lines& a, std::size_t row, const Lines& b, std::size_t column,
                       std::uint32_t c, const SumRule& rule, const Step& step) {
  std::array<Parts, kMaxStep> x;
  std::array<Parts, kMaxStep> y;
  const std::span<const Parts> a_factors = decode_step(a, row, step, x);
  const std::span<const Parts> b_factors = decode_step(b, column, step, y);
  if (rule.accumulator == Accumulator::kF16) {
    return fused_sum_of_f16(a_factors, b_factors, static_cast<std::uint16_t>(c), rule.precision);
  }
  return std::bit_cast<std::uint32_t>(
      fused_sum(a_factors, b_factors, std::bit_cast<float>(c), rule.precision));
}

// Calls use(step) for each step of a product.
template <typename Use>
void for_each_step(const Lines& lines, const SumRule& rule, Use&& use) {
  const std::size_t count = rule.step == 0 ? lines.depth : rule.step;
  for (std::size_t first = 0; first < lines.depth; first += count) {
    use(Step{.first = first, .count = count});
  }
}

}  // namespace

std::array<std::byte, kChunkBytes> unpack_row(std::span<const std::byte, kChunkBytes> row,
                                              std::size_t bits) {
  std::array<std::byte, kChunkBytes> bytes;
  for (std::size_t i = 0; i < kChunkBytes; ++i) {
    const std::size_t first = i * bits;
    const unsigned pair = std::to_integer<unsigned>(row[first / 8]) |
                          std::to_integer<unsigned>(row[first / 8 + 1]) << 8U;
    bytes.at(i) = static_cast<std::byte>(pair >> (first % 8) & ((1U << bits) - 1));
  }
  return bytes;
}

void Lines::resize(std::size_t lines) {
  count = lines;
  words.resize((lines + kBlockLines - 1) / kBlockLines * kBlockLines * width());
}

std::uint32_t Lines::get(std::size_t line, std::size_t k) const {
  const std::size_t bits = container_bits(element);
  const std::uint32_t word = words[index(line, k / elements_per_word(), width())];
  return bits == 32 ? word : word >> (k % elements_per_word() * bits) & ((1U << bits) - 1);
}

void Lines::set(std::size_t line, std::size_t k, std::uint32_t bits) {
  const std::size_t size = container_bits(element);
  const std::size_t shift = k % elements_per_word() * size;
  const std::uint32_t mask = (size == 32 ? ~0U : (1U << size) - 1) << shift;
  std::uint32_t& word = words[index(line, k / elements_per_word(), width())];
  word = (word & ~mask) | (bits << shift & mask);
}

void put_chunk(Lines& lines, std::size_t line, std::size_t k, bool is_k_major,
               std::span<const std::byte, kChunkBytes> chunk) {
  const std::size_t bits = bits_of(lines.element);
  const std::size_t size = bytes_of(lines.element);
  const std::size_t word = k * size / 4;
  std::array<std::byte, kChunkBytes> unpacked;
  const std::byte* bytes = chunk.data();
  if (bits < 8) {
    unpacked = unpack_row(chunk, bits);
    bytes = unpacked.data();
  }
  if (is_k_major) {
    put_words(lines, line, word, bytes);
    return;
  }
  auto* const to = reinterpret_cast<std::byte*>(lines.words.data());
  const std::size_t width = lines.width();
  const std::size_t byte = k * size % 4;
  for (std::size_t i = 0; i < kChunkBytes / size; ++i) {
    std::byte* const element = to + Lines::index(line + i, word, width) * 4 + byte;
    std::memcpy(element, bytes + i * size, size);
  }
}

std::uint32_t single_sum(const Lines& a, std::size_t row, const Lines& b, std::size_t column,
                         std::uint32_t c, const SumRule& rule) {
  for_each_step(a, rule, [&](const Step& step) { c = step_sum(a, row, b, column, c, rule, step); });
  return c;
}

void multiply_add(const Lines& a, const Lines& b, std::span<std::uint32_t> d, const SumRule& rule) {
  // Memory that the thread's products share, so that none of them allocates any.
  thread_local DecodedLines x;
  thread_local DecodedLines y;
  thread_local SpecialSums special;
  const TensorKernels& kernels = tensor_kernels(a.element);
  kernels.decode(a, x);
  tensor_kernels(b.element).decode(b, y);
  for_each_step(a, rule, [&](const Step& step) {
    special.indexes.clear();
    kernels.multiply(x, y, d, rule, step, special);
    for (const std::size_t i : special.indexes) {
      d[i] = step_sum(a, i / b.count, b, i % b.count, d[i], rule, step);
    }
  });
}

}  // namespace emu
