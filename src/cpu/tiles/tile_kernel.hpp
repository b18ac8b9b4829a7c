// TileKernel: the inner loop of matrix products on one instruction set.
#pragma once

#include <array>
#include <cstdint>

namespace fovea::cpu {

/// Both operands are stored in units of 4 bytes along the inner dimension: the numbers that one
/// lane of a dot-product instruction takes at once.
enum class UnitType : std::uint8_t {
  kF32,   // 1 float; sums are float
  kBF16,  // 2 bfloat16; sums are float
  kI16,   // 2 int16; sums are int32
  kU8I8,  // 4 uint8 of A, 4 int8 of B; sums are int32
  kI8I8,  // 4 int8 of both; sums are int32
};

[[nodiscard]] constexpr std::int64_t numbers_in_unit(UnitType type) {
  return type == UnitType::kF32 ? 1 : type == UnitType::kBF16 || type == UnitType::kI16 ? 2 : 4;
}

using Unit = std::uint32_t;

/// Strides of A, in units. The units of a row are grouped into steps, each of which the kernel
/// reads at once.
struct RowLayout {
  std::int64_t row = 0;   // from one row to the next
  std::int64_t step = 0;  // from one step of a row to the next
};

/// sums [height, columns] = A [height, units] x B [units, columns].
///   B: [units][columns]   sums: [height][columns] `units` is a multiple of the kernel's step. Each
///   sum depends only on its row and column, and adds the units in the same order for every height.
using TileFunction = void (*)(const Unit* a, const RowLayout& layout, const Unit* b,
                              std::int64_t units, Unit* sums);

struct TileKernel {
  static constexpr int kHeights = 4;
  static constexpr int kMaxHeight = 32;
  static constexpr int kMaxTile = kMaxHeight * 32;  // sums

  UnitType type = UnitType::kF32;
  std::int64_t columns = 0;
  std::int64_t step = 1;  // 1: A must be packed, and the layout argument is ignored
  std::array<std::int64_t, kHeights> heights{};  // ascending
  std::array<TileFunction, kHeights> functions{};
  void (*enter)() = nullptr;  // called before a thread's first tile, if not null
  void (*leave)() = nullptr;  // called after its last tile, if not null

  [[nodiscard]] std::int64_t max_height() const { return heights.back(); }
  /// The layout of packed A: [units / step][height][step].
  [[nodiscard]] RowLayout packed_layout(std::int64_t height) const {
    return {.row = step, .step = height * step};
  }
};

// The kernels for each instruction set. They may be called only on a CPU that supports it.
extern const TileKernel generic_f32;
#if defined(__x86_64__)
extern const TileKernel avx2_f32;
extern const TileKernel avx2_i16;
extern const TileKernel avx2_vnni_u8i8;
extern const TileKernel avx512_f32;
extern const TileKernel avx512_i16;
extern const TileKernel avx512_vnni_u8i8;
extern const TileKernel avx512_bf16;
extern const TileKernel amx_bf16;
extern const TileKernel amx_u8i8;
extern const TileKernel amx_i8i8;
#endif

}  // namespace fovea::cpu
