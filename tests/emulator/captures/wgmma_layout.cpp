// How operands of wgmma lie in shared memory.
#include "emulator/captures/wgmma_layout.hpp"

#include "emulator/captures/values.hpp"

namespace captures {

std::uint64_t OperandLayout::fields() const {
  return std::uint64_t{leading / 16} << 16U | std::uint64_t{stride / 16} << 32U |
         std::uint64_t{base} << 49U | static_cast<std::uint64_t>(mode) << 62U;
}

OperandLayout k_major(SwizzleMode mode, bool in_columns) {
  OperandLayout layout{.mode = mode};
  switch (mode) {
    case SwizzleMode::k128:
      layout.stride = 1024;
      break;
    case SwizzleMode::k64:
      layout.stride = 512;
      break;
    case SwizzleMode::k32:
      layout.stride = 256;
      break;
    case SwizzleMode::kNone:
      layout.leading = in_columns ? 4096 : 128;
      layout.stride = in_columns ? 128 : 512;
      layout.step = 2 * layout.leading;
      break;
  }
  return layout;
}

// Spans of M or N as wide as the swizzle, eight of K one after the other; the next eight of K
// follow, then the next span.
OperandLayout mn_major(SwizzleMode mode, int size) {
  OperandLayout layout{.mode = mode, .is_transposed = true};
  const std::uint32_t atom = mode == SwizzleMode::k128  ? 1024
                             : mode == SwizzleMode::k64 ? 512
                             : mode == SwizzleMode::k32 ? 256
                                                        : 128;
  if (mode == SwizzleMode::kNone) {  // `stride` between cores of M or N, `leading` along K
    layout.stride = atom;
    layout.leading = atom * static_cast<std::uint32_t>(size) / 8;
    layout.step = 2 * layout.leading;
    return layout;
  }
  layout.stride = atom;       // along K
  layout.leading = 4 * atom;  // along M or N: room for two steps
  layout.step = 2 * atom;
  return layout;
}

namespace {

// Where byte k of a row is, as 9.7.15.5 of PTX ISA 9.0 has it.
std::size_t place_of(const OperandLayout& layout, std::size_t offset, std::size_t row,
                     std::size_t k, int step) {
  std::size_t address = offset + layout.first + static_cast<std::size_t>(step) * layout.step +
                        row / 8 * layout.stride;
  if (layout.mode == SwizzleMode::kNone) {
    return address + row % 8 * 16 + k / 16 * layout.leading + k % 16;
  }
  const std::size_t span = layout.mode == SwizzleMode::k128  ? 128
                           : layout.mode == SwizzleMode::k64 ? 64
                                                             : 32;
  address += row % 8 * span + k;
  return address ^ ((address / 128 & (span / 16 - 1)) * 16);
}

int value_of(std::byte byte, bool is_signed) {
  const auto value = static_cast<int>(byte);
  return is_signed && value >= 128 ? value - 256 : value;
}

}  // namespace

std::vector<Bytes> integer_products(const std::vector<Bytes>& inputs,
                                    const IntegerProduct& product) {
  auto d = values_of<std::uint32_t>(inputs[1]);
  for (std::size_t i = 0; i < d.size(); ++i) {
    const std::size_t thread = i % 128;
    const std::size_t reg = i / 128;
    const std::size_t row = thread / 32 * 16 + thread % 32 / 4 + reg / 2 % 2 * 8;
    const std::size_t column = reg / 4 * 8 + thread % 4 * 2 + reg % 2;
    std::uint32_t sum = product.accumulates ? d[i] : 0;
    for (int step = 0; step < product.steps; ++step) {
      for (std::size_t k = 0; k < 32; ++k) {
        // In registers, A lies as in mma.m16n8k32.
        const std::size_t owner = row / 16 * 32 + row % 8 * 4 + k % 16 / 4;
        const std::byte a = product.is_a_in_registers
                                ? inputs[2][owner * 16 + (row / 8 % 2 + k / 16 * 2) * 4 + k % 4]
                                : inputs[0][place_of(product.a, 0, row, k, step)];
        const std::byte b = inputs[0][place_of(product.b, product.b_offset, column, k, step)];
        sum += static_cast<std::uint32_t>(value_of(a, product.is_a_signed) *
                                          value_of(b, product.is_b_signed));
      }
    }
    d[i] = sum;
  }
  return {bytes_of(d)};
}

}  // namespace captures
