// The dot product of two float arrays, compiled once for each SIMD target by the files that include
// it between Highway's foreach_target passes.
#if defined(FOVEA_CORE_DOT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CORE_DOT_INL_HPP
#undef FOVEA_CORE_DOT_INL_HPP
#else
#define FOVEA_CORE_DOT_INL_HPP
#endif

#include <cstddef>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {

/// Sum of a[i] * b[i], in enough independent sums to hide the latency of the additions.
HWY_INLINE float dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::size_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> tag;
  const std::size_t lanes = hn::Lanes(tag);
  auto s0 = hn::Zero(tag);
  auto s1 = s0;
  auto s2 = s0;
  auto s3 = s0;
  std::size_t index = 0;
  for (; index + 4 * lanes <= count; index += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(tag, a + index), hn::LoadU(tag, b + index), s0);
    s1 = hn::MulAdd(hn::LoadU(tag, a + index + lanes), hn::LoadU(tag, b + index + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(tag, a + index + 2 * lanes), hn::LoadU(tag, b + index + 2 * lanes),
                    s2);
    s3 = hn::MulAdd(hn::LoadU(tag, a + index + 3 * lanes), hn::LoadU(tag, b + index + 3 * lanes),
                    s3);
  }
  for (; index + lanes <= count; index += lanes) {
    s0 = hn::MulAdd(hn::LoadU(tag, a + index), hn::LoadU(tag, b + index), s0);
  }
  float sum = hn::GetLane(hn::SumOfLanes(tag, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; index < count; ++index) {
    sum += a[index] * b[index];
  }
  return sum;
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
