// Tiles for AVX2 with FMA: 6 x 16 sums in 12 of 16 registers.
#include "cpu/tiles/avx2-inl.hpp"

namespace fovea::cpu {
namespace {

struct F32 {
  static constexpr int kLanes = 8;
  static constexpr int kVectors = 2;
  /// Maximum number of products in one running sum, which limits rounding errors.
  static constexpr std::int64_t kMaxUnits = 256;
  using Vector = __m256;
  using Sum = __m256;

  static Vector load(const Unit* from) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
  }
  static Vector broadcast(const Unit* from) {
    return _mm256_broadcast_ss(reinterpret_cast<const float*>(from));
  }
  static Sum dot(Sum sum, Vector a, Vector b) { return _mm256_fmadd_ps(a, b, sum); }
  static void store(Unit* to, Sum sum, bool add) {
    _mm256_storeu_ps(reinterpret_cast<float*>(to), add ? _mm256_add_ps(load(to), sum) : sum);
  }
};

/// Uses pairs of 16-bit products (vpmaddwd): those of 8 bits (vpmaddubsw) would saturate.
struct I16 : Integers {
  static Sum dot(Sum sum, Vector a, Vector b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  }
};

}  // namespace

constinit const TileKernel avx2_f32 = make_tile_kernel<F32, 1, 2, 4, 6>(UnitType::kF32);
constinit const TileKernel avx2_i16 = make_tile_kernel<I16, 1, 2, 4, 6>(UnitType::kI16);

}  // namespace fovea::cpu
