// Tiles for AMX: 32 x 32 sums in four of its eight registers of 16 x 16.
#include <cstddef>

#include <immintrin.h>

#include "cpu/tiles/tile_kernel.hpp"

namespace fovea::cpu {
namespace {

constexpr int kSide = 16;                               // rows of a tile register
constexpr int kRowBytes = 64;                           // bytes of a row of a tile register
constexpr int kColumns = 2 * kSide;                     // columns of a tile of sums
constexpr int kColumnsBytes = kColumns * sizeof(Unit);  // a row of B, and of sums
constexpr int kStepOfB = kSide * kColumns;              // units of B per step
constexpr int kNextSums = kSide * kColumns;             // the sums of the next 16 rows

/// The operand of ldtilecfg: all registers have 16 rows of 64 bytes.
struct alignas(64) Configuration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  constexpr Configuration() {
    for (int i = 0; i < 8; ++i) {
      row_bytes[i] = kRowBytes;
      rows[i] = kSide;
    }
  }
};

constexpr Configuration kConfiguration;

void enter() {
  _tile_loadconfig(&kConfiguration);
}

void leave() {
  _tile_release();
}

// Register numbers must be constants in the instructions, so these are macros instead of functions.
// Tile registers 0 to 3 hold sums, 4 and 5 rows of A, 6 and 7 columns of B.
#define FOVEA_AMX_TILES(name, dot)                                                          \
  void name##_32(const Unit* a, const RowLayout& layout, const Unit* b, std::int64_t units, \
                 Unit* sums) {                                                              \
    _tile_zero(0);                                                                          \
    _tile_zero(1);                                                                          \
    _tile_zero(2);                                                                          \
    _tile_zero(3);                                                                          \
    const auto stride = static_cast<std::size_t>(layout.row) * sizeof(Unit);                \
    const Unit* low = a + kSide * layout.row;                                               \
    for (std::int64_t unit = 0; unit < units; unit += kSide) {                              \
      _tile_loadd(6, b, kColumnsBytes);                                                     \
      _tile_loadd(4, a, stride);                                                            \
      dot(0, 4, 6);                                                                         \
      _tile_loadd(5, low, stride);                                                          \
      dot(2, 5, 6);                                                                         \
      _tile_loadd(7, b + kSide, kColumnsBytes);                                             \
      dot(1, 4, 7);                                                                         \
      dot(3, 5, 7);                                                                         \
      a += layout.step;                                                                     \
      low += layout.step;                                                                   \
      b += kStepOfB;                                                                        \
    }                                                                                       \
    _tile_stored(0, sums, kColumnsBytes);                                                   \
    _tile_stored(1, sums + kSide, kColumnsBytes);                                           \
    _tile_stored(2, sums + kNextSums, kColumnsBytes);                                       \
    _tile_stored(3, sums + kNextSums + kSide, kColumnsBytes);                               \
  }                                                                                         \
  void name##_16(const Unit* a, const RowLayout& layout, const Unit* b, std::int64_t units, \
                 Unit* sums) {                                                              \
    _tile_zero(0);                                                                          \
    _tile_zero(1);                                                                          \
    const auto stride = static_cast<std::size_t>(layout.row) * sizeof(Unit);                \
    for (std::int64_t unit = 0; unit < units; unit += kSide) {                              \
      _tile_loadd(4, a, stride);                                                            \
      _tile_loadd(6, b, kColumnsBytes);                                                     \
      _tile_loadd(7, b + kSide, kColumnsBytes);                                             \
      dot(0, 4, 6);                                                                         \
      dot(1, 4, 7);                                                                         \
      a += layout.step;                                                                     \
      b += kStepOfB;                                                                        \
    }                                                                                       \
    _tile_stored(0, sums, kColumnsBytes);                                                   \
    _tile_stored(1, sums + kSide, kColumnsBytes);                                           \
  }

FOVEA_AMX_TILES(bf16, _tile_dpbf16ps)
FOVEA_AMX_TILES(u8i8, _tile_dpbusd)
FOVEA_AMX_TILES(i8i8, _tile_dpbssd)
#undef FOVEA_AMX_TILES

constexpr TileKernel make_tile_kernel(UnitType type, TileFunction low, TileFunction high) noexcept {
  return {.type = type,
          .columns = kColumns,
          .step = kSide,
          .heights = {kSide, kSide, kSide, 2 * kSide},
          .functions = {low, low, low, high},
          .enter = enter,
          .leave = leave};
}

}  // namespace

constinit const TileKernel amx_bf16 = make_tile_kernel(UnitType::kBF16, bf16_16, bf16_32);
constinit const TileKernel amx_u8i8 = make_tile_kernel(UnitType::kU8I8, u8i8_16, u8i8_32);
constinit const TileKernel amx_i8i8 = make_tile_kernel(UnitType::kI8I8, i8i8_16, i8i8_32);

}  // namespace fovea::cpu
