// Tensor maps for the TMA: the arguments of cuTensorMapEncodeTiled, encoded for the emulator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace [[gnu::visibility("default")]] emu {

/// Types of elements, in the order of the driver's numbers. Loads round elements of kTF32 and
/// kTF32Ftz to 10 bits of fraction. No copy flushes subnormal numbers.
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
  kF32Ftz,
  kTF32,
  kTF32Ftz,
};

/// Swizzle: permutation of units in shared memory; k32, k64 and k128 are its span in bytes. Units
/// are of 16 bytes; those of k128Atom32 and k128Atom64, which sm_100 has, are of 32 and 64 bytes.
enum class TensorMapSwizzle : std::uint8_t { kNone, k32, k64, k128, k128Atom32, k128Atom64 };

/// Fill value for elements outside of the tensor. The NaN that a GPU uses is not documented; the
/// emulator's has all bits but the sign set.
enum class TensorMapFill : std::uint8_t { kZero, kNan };

/// Description of a row-major tensor of up to five dimensions, innermost first, and of the boxes to
/// copy; no interleave. Array elements beyond the rank are ignored.
struct TensorMapDesc {
  TensorMapType type = TensorMapType::kU8;
  int rank = 1;
  std::uint64_t address = 0;            // device address; 16-byte aligned
  std::array<std::uint64_t, 5> dims{};  // in elements; 1 to 2^32
  std::array<std::uint64_t, 4>
      strides{};                       // in bytes, of dimensions 1, 2, ...; multiples of 16, < 2^40
  std::array<std::uint32_t, 5> box{};  // size of the box in elements; 1 to 256
  /// Traversal strides, in elements, 1 to 8. That of the innermost dimension is ignored: without
  /// interleave the TMA reads it contiguously.
  std::array<std::uint32_t, 5> element_strides = {1, 1, 1, 1, 1};
  TensorMapSwizzle swizzle = TensorMapSwizzle::kNone;
  TensorMapFill fill = TensorMapFill::kZero;
};

constexpr std::size_t kTensorMapBytes = 128;

/// Encodes a map in the form that kernels read: 128 bytes, in a parameter or at a multiple of 64 in
/// global memory. Only the emulator understands the format. Throws Error for a description
/// that cuTensorMapEncodeTiled rejects.
std::array<std::byte, kTensorMapBytes> encode(const TensorMapDesc& desc);

}  // namespace emu
