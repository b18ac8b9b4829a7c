// Tiles for AVX512-BF16: 14 x 32 sums of two products each.
#include "cpu/tiles/avx512-inl.hpp"

namespace fovea::cpu {
namespace {

struct BF16 : Integers {
  static constexpr std::int64_t kMaxUnits = 256;
  using Sum = __m512;

  static Sum dot(Sum sum, Vector a, Vector b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  static void store(Unit* to, Sum sum, bool add) {
    _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), sum) : sum);
  }
};

}  // namespace

constinit const TileKernel avx512_bf16 = make_tile_kernel<BF16, 1, 4, 8, 14>(UnitType::kBF16);

}  // namespace fovea::cpu
