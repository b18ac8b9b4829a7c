// Loads of binary16 numbers as binary32, compiled once for each SIMD target by the files that
// include it between Highway's foreach_target passes.
#if defined(FOVEA_SEARCH_HALF_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_SEARCH_HALF_INL_HPP
#undef FOVEA_SEARCH_HALF_INL_HPP
#else
#define FOVEA_SEARCH_HALF_INL_HPP
#endif

#include <cstddef>

#include <hwy/highway.h>

#include "core/dtype.hpp"

HWY_BEFORE_NAMESPACE();
namespace fovea::search::HWY_NAMESPACE {

namespace half_hn = hwy::HWY_NAMESPACE;

/// Loads consecutive numbers into a vector. The conversion is exact and preserves NaN and infinity.
HWY_INLINE half_hn::Vec<half_hn::ScalableTag<float>> load_halves(half_hn::ScalableTag<float> tag,
                                                                 const Float16* halves) {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
  // Highway converts NaN and infinity to finite numbers on targets without F16C.
  constexpr std::size_t kMaxLanes = HWY_MAX_BYTES / sizeof(float);
  alignas(HWY_MAX_BYTES) float values[kMaxLanes];
  for (std::size_t lane = 0; lane < half_hn::Lanes(tag); ++lane) {
    values[lane] = to_float(halves[lane]);
  }
  return half_hn::Load(tag, values);
#else
  const half_hn::Rebind<hwy::float16_t, half_hn::ScalableTag<float>> half_tag;
  return half_hn::PromoteTo(
      tag, half_hn::LoadU(half_tag, reinterpret_cast<const hwy::float16_t*>(halves)));
#endif
}

}  // namespace fovea::search::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
