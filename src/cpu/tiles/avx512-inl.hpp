// Vectors of 16 integer units, for the tiles for AVX-512.
#pragma once

#include <immintrin.h>

#include "cpu/tiles/tile-inl.hpp"

namespace fovea::cpu {
namespace {

struct Integers {
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 2;
  static constexpr std::int64_t kMaxUnits = std::int64_t{1} << 40;
  using Vector = __m512i;
  using Sum = __m512i;

  static Vector load(const Unit* from) { return _mm512_loadu_si512(from); }
  static Vector broadcast(const Unit* from) { return _mm512_set1_epi32(static_cast<int>(*from)); }
  static void store(Unit* to, Sum sum, bool add) {
    _mm512_storeu_si512(to, add ? _mm512_add_epi32(load(to), sum) : sum);
  }
};

}  // namespace
}  // namespace fovea::cpu
