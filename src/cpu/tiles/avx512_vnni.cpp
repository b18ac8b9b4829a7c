// Tiles for AVX512-VNNI: 14 x 32 sums of four products each.
#include "cpu/tiles/avx512-inl.hpp"

namespace fovea::cpu {
namespace {

struct U8I8 : Integers {
  static Sum dot(Sum sum, Vector a, Vector b) { return _mm512_dpbusd_epi32(sum, a, b); }
};

}  // namespace

constinit const TileKernel avx512_vnni_u8i8 = make_tile_kernel<U8I8, 1, 4, 8, 14>(UnitType::kU8I8);

}  // namespace fovea::cpu
