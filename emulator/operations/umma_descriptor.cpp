// Descriptors of tcgen05.mma: the instruction descriptor, and those of matrices in shared memory.
#include "emulator/operations/umma_descriptor.hpp"

#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace emu {
namespace {

constexpr std::uint32_t field(std::uint32_t bits, unsigned first, unsigned count) {
  return bits >> first & ((1U << count) - 1);
}

// Bits of the instruction descriptor that must be 0 in all supported kinds: 6, and 0-2 for
// sparsity.
constexpr std::uint32_t kSparsity = 0x7;
constexpr std::uint32_t kReserved = 1U << 6U;
// Reserved bits for kinds without scales, and for those with scales.
constexpr std::uint32_t kReservedWithoutScales = 1U << 23U | 1U << 29U;
constexpr std::uint32_t kReservedWithScales = 1U << 3U | 7U << 24U | 1U << 31U;

std::optional<Element> element_of(UmmaKind kind, std::uint32_t code) {
  using Codes = std::array<std::optional<Element>, 8>;
  constexpr Codes kHalfTypes = {Element::kF16, Element::kBF16};
  constexpr Codes kIntegerTypes = {Element::kU8, Element::kS8};
  constexpr Codes kSmallFloatTypes = {Element::kE4M3, Element::kE5M2, std::nullopt,
                                      Element::kE2M3, Element::kE3M2, Element::kE2M1};
  switch (kind) {
    case UmmaKind::kF16:
      return kHalfTypes.at(code);
    case UmmaKind::kI8:
      return kIntegerTypes.at(code);
    case UmmaKind::kF8F6F4:
    case UmmaKind::kMxF8F6F4:
      break;
  }
  return kSmallFloatTypes.at(code);
}

bool is_packed(Element element) {
  return element == Element::kE2M3 || element == Element::kE3M2 || element == Element::kE2M1;
}

// Fields for a matrix: name, element code, and the bits for transposition and negation.
struct Factor {
  std::string_view name;
  unsigned element_bit;
  unsigned negated_bit;
  unsigned transposed_bit;
};
constexpr Factor kFactorA = {"A", 7, 13, 15};
constexpr Factor kFactorB = {"B", 10, 14, 16};

CheckResult check_factor(const UmmaForm& form, std::uint32_t bits, const Factor& factor) {
  const std::uint32_t code = field(bits, factor.element_bit, 3);
  const std::optional<Element> element = element_of(form.kind, code);
  if (!element) {
    return {fmt::format("{}'s type {} is reserved in this kind", factor.name, code)};
  }
  if (form.kind == UmmaKind::kI8 && field(bits, factor.negated_bit, 1) != 0) {
    return {fmt::format("{} is negated, but integers cannot be", factor.name)};
  }
  if (is_packed(*element) && field(bits, factor.transposed_bit, 1) != 0) {
    return {fmt::format("{} has elements of less than 8 bits, which cannot be transposed",
                        factor.name)};
  }
  return {};
}

CheckResult check_accumulator(const UmmaForm& form, std::uint32_t bits) {
  if (form.has_scales()) {
    return field(bits, 23, 1) != 0 ? CheckResult{}
                                   : CheckResult{"scales have type 0, but must have UE8M0 (1)"};
  }
  const std::uint32_t type = field(bits, 4, 2);
  if (form.kind == UmmaKind::kI8) {
    return type == 2 ? CheckResult{}
                     : CheckResult{fmt::format("D's type is {}, but must be S32 (2)", type)};
  }
  if (type > 1) {
    return {fmt::format("D's type is {}, but must be F16 (0) or F32 (1)", type)};
  }
  if (form.kind == UmmaKind::kF16 && type == 0 &&
      (field(bits, kFactorA.element_bit, 3) != 0 || field(bits, kFactorB.element_bit, 3) != 0)) {
    return {"D is F16, but A or B is not"};
  }
  return field(bits, 3, 1) != 0 ? CheckResult{"floats cannot saturate"} : CheckResult{};
}

// Checks M and N. N must be a multiple of a step that depends on the kind and B's layout.
CheckResult check_shape(const UmmaForm& form, std::uint32_t bits) {
  const bool is_pair = form.blocks == 2;
  const std::uint32_t rows = field(bits, 24, 5) * 16;
  const std::uint32_t columns = field(bits, 17, 6) * 8;
  const std::uint32_t small = is_pair || form.has_scales() ? 128 : 64;
  const std::uint32_t large = is_pair ? 256 : 128;
  if (rows != small && rows != large) {
    return {fmt::format("M is {}, but must be {}{}", rows, small,
                        small == large ? "" : fmt::format(" or {}", large))};
  }
  const std::uint32_t blocks = is_pair ? 2 : 1;
  const bool is_b_transposed = field(bits, kFactorB.transposed_bit, 1) != 0;
  const bool has_bytes = form.kind != UmmaKind::kF16;
  const bool is_narrow_integer = form.kind == UmmaKind::kI8 && !is_pair && columns <= 32;
  const bool has_double_step =
      (has_bytes && is_b_transposed) || (form.kind == UmmaKind::kI8 && !is_narrow_integer);
  const std::uint32_t step = (has_double_step ? 16 : 8) * blocks;
  if (columns == 0 || columns > 256 || columns % step != 0) {
    return {
        fmt::format("N is {}, but must be a multiple of {} from {} to 256", columns, step, step)};
  }
  return {};
}

}  // namespace

UmmaInstruction UmmaInstruction::from_bits(const UmmaForm& form, std::uint32_t bits) {
  constexpr std::array kAccumulators = {Accumulator::kF16, Accumulator::kF32, Accumulator::kS32,
                                        Accumulator::kS32};
  const bool has_scales = form.has_scales();
  return {
      .a = element_of(form.kind, field(bits, kFactorA.element_bit, 3)).value_or(Element::kF16),
      .b = element_of(form.kind, field(bits, kFactorB.element_bit, 3)).value_or(Element::kF16),
      .accumulator = has_scales ? Accumulator::kF32 : kAccumulators.at(field(bits, 4, 2)),
      .rows = std::size_t{field(bits, 24, 5)} * 16,
      .columns = std::size_t{field(bits, 17, 6)} * 8,
      .is_a_k_major = field(bits, kFactorA.transposed_bit, 1) == 0,
      .is_b_k_major = field(bits, kFactorB.transposed_bit, 1) == 0,
      .is_a_negated = field(bits, kFactorA.negated_bit, 1) != 0,
      .is_b_negated = field(bits, kFactorB.negated_bit, 1) != 0,
      .is_saturating = !has_scales && field(bits, 3, 1) != 0,
      .scale_a_byte = has_scales ? field(bits, 29, 2) : 0,
      .scale_b_byte = has_scales ? field(bits, 4, 2) : 0,
  };
}

MatrixShape UmmaInstruction::shape_of_a(const UmmaForm& form) const {
  return {rows / form.blocks, form.depth(), bytes_of(a), is_a_k_major};
}
MatrixShape UmmaInstruction::shape_of_b(const UmmaForm& form) const {
  return {columns / form.blocks, form.depth(), bytes_of(b), is_b_k_major};
}

CheckResult check_instruction(const UmmaForm& form, std::uint32_t bits) {
  if ((bits & kSparsity) != 0) {
    return {"a sparse A is not emulated"};
  }
  const std::uint32_t reserved =
      bits & (kReserved | (form.has_scales() ? kReservedWithScales : kReservedWithoutScales));
  if (reserved != 0) {
    return {fmt::format("its reserved bits {:#x} must be 0", reserved)};
  }
  if (!form.has_scales() && field(bits, 30, 2) != 0) {
    return {"it has a maximum shift, which only .ws supports"};
  }
  return check_factor(form, bits, kFactorA)
      .and_then([&] { return check_factor(form, bits, kFactorB); })
      .and_then([&] { return check_accumulator(form, bits); })
      .and_then([&]() -> CheckResult {
        if (form.is_a_in_tensor_memory && field(bits, kFactorA.transposed_bit, 1) != 0) {
          return {"A is in tensor memory and cannot be transposed"};
        }
        if (form.is_a_in_tensor_memory && is_packed(UmmaInstruction::from_bits(form, bits).a)) {
          return {"A is in tensor memory with elements of less than 8 bits, which is not emulated"};
        }
        return check_shape(form, bits);
      });
}

CheckResult check_umma_matrix(std::uint64_t bits, const MatrixShape& shape) {
  // Reserved bits 14-15, 30-31 and 53-60; bits 46-48 must be 0b001.
  constexpr std::uint64_t kReservedBits = 0x1FE0'0000'C000'C000;
  if ((bits & kReservedBits) != 0) {
    return {fmt::format("its reserved bits {:#x} must be 0", bits & kReservedBits)};
  }
  if (const std::uint64_t version = bits >> 46U & 7U; version != 1) {
    return {fmt::format("its bits 46-48 are {}, but must be 1", version)};
  }
  if ((bits >> 52U & 1U) != 0) {
    return {"it gives the leading dimension as an address (bit 52), which only sm_103a supports"};
  }
  switch (const std::uint64_t swizzle = bits >> 61U; swizzle) {
    case 1:
      return {"its swizzle, of 128 bytes in units of 32, is not emulated"};
    case 3:
    case 5:
    case 7:
      return {fmt::format("its swizzle {} is reserved", swizzle)};
    default:
      return check_matrix(MatrixDescriptor::from_bits(bits), shape);
  }
}

}  // namespace emu
