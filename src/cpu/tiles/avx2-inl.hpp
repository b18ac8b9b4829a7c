// Vectors of 8 integer units, for the tiles for AVX2.
#pragma once

#include <immintrin.h>

#include "cpu/tiles/tile-inl.hpp"

namespace fovea::cpu {
namespace {

struct Integers {
  static constexpr int kLanes = 8;
  static constexpr int kVectors = 2;
  static constexpr std::int64_t kMaxUnits = std::int64_t{1} << 40;
  using Vector = __m256i;
  using Sum = __m256i;

  static Vector load(const Unit* from) {
    return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from));
  }
  static Vector broadcast(const Unit* from) { return _mm256_set1_epi32(static_cast<int>(*from)); }
  static void store(Unit* to, Sum sum, bool add) {
    _mm256_storeu_si256(reinterpret_cast<Vector*>(to), add ? _mm256_add_epi32(load(to), sum) : sum);
  }
};

}  // namespace
}  // namespace fovea::cpu
