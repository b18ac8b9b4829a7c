// Tiles for AVX-VNNI: 6 x 16 sums of four products each.
#include "cpu/tiles/avx2-inl.hpp"

namespace fovea::cpu {
namespace {

struct U8I8 : Integers {
  static Sum dot(Sum sum, Vector a, Vector b) { return _mm256_dpbusd_avx_epi32(sum, a, b); }
};

}  // namespace

constinit const TileKernel avx2_vnni_u8i8 = make_tile_kernel<U8I8, 1, 2, 4, 6>(UnitType::kU8I8);

}  // namespace fovea::cpu
