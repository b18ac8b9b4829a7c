// Tiles for AVX-512, with VNNI and with BF16: 14 x 32 sums in 28 of 32 registers.
#include <immintrin.h>

#include "cpu/tiles/tile-inl.hpp"

namespace fovea::cpu {
namespace {

struct F32 {
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 2;
  using Vector = __m512;
  using Sum = __m512;

  static Vector load(const Unit* from) { return _mm512_loadu_ps(from); }
  static Vector broadcast(const Unit* from) {
    return _mm512_set1_ps(*reinterpret_cast<const float*>(from));
  }
  static Sum dot(Sum sum, Vector a, Vector b) { return _mm512_fmadd_ps(a, b, sum); }
  static void store(Unit* to, Sum sum) { _mm512_storeu_ps(to, sum); }
};

struct Integers {
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 2;
  using Vector = __m512i;
  using Sum = __m512i;

  static Vector load(const Unit* from) { return _mm512_loadu_si512(from); }
  static Vector broadcast(const Unit* from) { return _mm512_set1_epi32(static_cast<int>(*from)); }
  static void store(Unit* to, Sum sum) { _mm512_storeu_si512(to, sum); }
};

struct I16 : Integers {
  static Sum dot(Sum sum, Vector a, Vector b) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
  }
};

struct U8I8 : Integers {
  static Sum dot(Sum sum, Vector a, Vector b) { return _mm512_dpbusd_epi32(sum, a, b); }
};

struct BF16 : Integers {
  using Sum = __m512;

  static Sum dot(Sum sum, Vector a, Vector b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  static void store(Unit* to, Sum sum) { _mm512_storeu_ps(to, sum); }
};

}  // namespace

constinit const TileKernel avx512_f32 = kernel_of<F32, 1, 4, 8, 14>(UnitType::kF32);
constinit const TileKernel avx512_i16 = kernel_of<I16, 1, 4, 8, 14>(UnitType::kI16);
constinit const TileKernel avx512_vnni_u8i8 = kernel_of<U8I8, 1, 4, 8, 14>(UnitType::kU8I8);
constinit const TileKernel avx512_bf16 = kernel_of<BF16, 1, 4, 8, 14>(UnitType::kBF16);

}  // namespace fovea::cpu
