// Tiles for AVX-512: 14 x 32 sums in 28 of 32 registers.
#include "cpu/tiles/avx512-inl.hpp"

namespace fovea::cpu {
namespace {

struct F32 {
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 2;
  /// Maximum number of products in one running sum, which limits rounding errors.
  static constexpr std::int64_t kMaxUnits = 256;
  using Vector = __m512;
  using Sum = __m512;

  static Vector load(const Unit* from) { return _mm512_loadu_ps(from); }
  static Vector broadcast(const Unit* from) {
    return _mm512_set1_ps(*reinterpret_cast<const float*>(from));
  }
  static Sum dot(Sum sum, Vector a, Vector b) { return _mm512_fmadd_ps(a, b, sum); }
  static void store(Unit* to, Sum sum, bool add) {
    _mm512_storeu_ps(to, add ? _mm512_add_ps(load(to), sum) : sum);
  }
};

struct I16 : Integers {
  static Sum dot(Sum sum, Vector a, Vector b) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
  }
};

}  // namespace

constinit const TileKernel avx512_f32 = make_tile_kernel<F32, 1, 4, 8, 14>(UnitType::kF32);
constinit const TileKernel avx512_i16 = make_tile_kernel<I16, 1, 4, 8, 14>(UnitType::kI16);

}  // namespace fovea::cpu
