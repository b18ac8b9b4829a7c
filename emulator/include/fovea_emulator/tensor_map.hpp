// A tensor as the TMA sees it: what cuTensorMapEncodeTiled takes, encoded for the emulator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace [[gnu::visibility("default")]] emu {

enum class TensorMapType : std::uint8_t {
  kU8,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF64,
  kBF16,
};

/// Permutation of units of 16 bytes in shared memory, by the bytes of its span.
enum class TensorMapSwizzle : std::uint8_t { kNone, k32, k64, k128 };

/// What elements outside of the tensor are read as. Which NaN a GPU takes is not documented; the
/// emulator's has all bits but the sign set.
enum class TensorMapFill : std::uint8_t { kZero, kNan };

/// Boxes of a row-major tensor of up to five dimensions, innermost first; no interleave. What lies
/// behind the rank is ignored.
struct TensorMapDesc {
  TensorMapType type = TensorMapType::kU8;
  int rank = 1;
  std::uint64_t address = 0;               // of the device; 16-byte aligned
  std::array<std::uint64_t, 5> dims{};     // elements; 1 to 2^32
  std::array<std::uint64_t, 4> strides{};  // bytes between dims 1, 2, ...; multiples of 16, < 2^40
  std::array<std::uint32_t, 5> box{};      // elements to go through; 1 to 256
  /// Steps to go through the box with; 1 to 8. The innermost dimension is read without gaps
  /// whatever it says.
  std::array<std::uint32_t, 5> element_strides = {1, 1, 1, 1, 1};
  TensorMapSwizzle swizzle = TensorMapSwizzle::kNone;
  TensorMapFill fill = TensorMapFill::kZero;
};

constexpr std::size_t kTensorMapBytes = 128;

/// The map as kernels take it: 128 bytes, in a parameter or in global memory at a multiple of 64,
/// that only the emulator understands. Throws Error for what cuTensorMapEncodeTiled refuses.
std::array<std::byte, kTensorMapBytes> encode(const TensorMapDesc& desc);

}  // namespace emu
