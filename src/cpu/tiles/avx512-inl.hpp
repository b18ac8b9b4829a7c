// Vectors of 16 units of integers, for the files of AVX-512.
#pragma once

#include <immintrin.h>

#include "cpu/tiles/tile-inl.hpp"

namespace fovea::cpu {
namespace {

struct Integers {
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 2;
  using Vector = __m512i;
  using Sum = __m512i;

  static Vector load(const Unit* from) { return _mm512_loadu_si512(from); }
  static Vector broadcast(const Unit* from) { return _mm512_set1_epi32(static_cast<int>(*from)); }
  static void store(Unit* to, Sum sum) { _mm512_storeu_si512(to, sum); }
};

}  // namespace
}  // namespace fovea::cpu
