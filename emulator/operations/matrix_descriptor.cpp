// Matrix descriptors of wgmma and tcgen05.mma: their checks, and the address of each element.
#include "emulator/operations/matrix_descriptor.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace emu {
namespace {

// Reserved bits: 14-15, 30-31, 46-48 and 52-61.
constexpr std::uint64_t kReserved = 0x3FF1'C000'C000'C000;

constexpr std::uint32_t field(std::uint64_t bits, unsigned first) {
  return static_cast<std::uint32_t>(bits >> first & 0x3FFFU) << 4U;
}

}  // namespace

MatrixDescriptor MatrixDescriptor::from_bits(std::uint64_t bits) {
  return {.start = field(bits, 0),
          .leading = field(bits, 16),
          .stride = field(bits, 32),
          .base_offset = static_cast<std::uint32_t>(bits >> 49U & 7U),
          .swizzle = static_cast<Swizzle>(bits >> 62U)};
}

CheckResult check_matrix(std::uint64_t bits, const MatrixShape& shape) {
  if ((bits & kReserved) != 0) {
    return {fmt::format("its reserved bits {:#x} must be 0", bits & kReserved)};
  }
  return check_matrix(MatrixDescriptor::from_bits(bits), shape);
}

CheckResult check_matrix(const MatrixDescriptor& descriptor, const MatrixShape& shape) {
  if (descriptor.swizzle == Swizzle::kNone) {
    return descriptor.base_offset != 0 ? CheckResult{"it has a base offset without a swizzle"}
                                       : CheckResult{};
  }
  const std::uint32_t width = pattern_width(descriptor.swizzle);
  const std::size_t contiguous_bytes =
      shape.element_bytes * (shape.is_k_major ? shape.depth : shape.lines);
  const std::uint32_t first = descriptor.start % width;
  if (first + std::min<std::size_t>(contiguous_bytes, width) > width) {
    return {fmt::format(
        "{1} contiguous bytes from {0:#x} on do not lie in one row of the swizzle of {2} bytes",
        descriptor.start, std::min<std::size_t>(contiguous_bytes, width), width)};
  }
  return {};
}

}  // namespace emu
