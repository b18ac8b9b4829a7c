// The SIMD passes of the resize, compiled for every instruction set and chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/resize_kernels.cpp"
#include "image/resize_kernels.hpp"

#include <algorithm>
#include <cstring>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::image::HWY_NAMESPACE {

constexpr int kRound = 1 << (kWeightBits - 1);

// Targets without real vectors use whole weights, one sample after another.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

int whole_weight(const std::int32_t* words, int tap) {
  words += tap / kTapsPerGroup * kWordsPerGroup + tap % kTapsPerGroup / 2;
  const int shift = tap % 2 * 16;
  const int low = (words[0] >> shift) & 0xffff;
  const int high = static_cast<std::int16_t>(words[2] >> shift);
  return high * (1 << kSplitBits) + low;
}

std::uint8_t clip(int sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

void band_kernel(const SourceBand& rows, const AxisWeights& axis, const OutputBand& out) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (int index = 0; index < axis.out; ++index) {
      const auto column = static_cast<std::size_t>(index);
      int sums[3] = {kRound, kRound, kRound};
      for (int tap = 0; tap < axis.count[column]; ++tap) {
        const int weight = whole_weight(axis.row(index), tap);
        const std::uint8_t* pixel =
            rows[row] + static_cast<std::size_t>(axis.first[column] + tap) * 3;
        for (std::size_t channel = 0; channel < 3; ++channel) {
          sums[channel] += pixel[channel] * weight;
        }
      }
      for (std::size_t channel = 0; channel < 3; ++channel) {
        out[row][column * 3 + channel] = clip(sums[channel]);
      }
    }
  }
}

void blend_kernel(const std::uint8_t* const* rows, const std::int32_t* words, int groups,
                  std::size_t bytes, std::uint8_t* out) {
  for (std::size_t byte = 0; byte < bytes; ++byte) {
    int sum = kRound;
    for (int tap = 0; tap < groups * kTapsPerGroup; ++tap) {
      sum += rows[tap][byte] * whole_weight(words, tap);
    }
    out[byte] = clip(sum);
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

/// sum + a[2i] * b[2i] + a[2i+1] * b[2i+1] per 32-bit lane i of the int16 vectors a and b.
template <class D, class V16, class V32>
HWY_INLINE V32 dot_pairs(D d, V16 a, V16 b, V32 sum) {
#if HWY_ARCH_X86
  V32 unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, a, b, sum, unused);
#else
  const V32 a32 = hn::BitCast(d, a);
  const V32 b32 = hn::BitCast(d, b);
  const V32 even = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(a32)),
                           hn::ShiftRight<16>(hn::ShiftLeft<16>(b32)));
  const V32 odd = hn::Mul(hn::ShiftRight<16>(a32), hn::ShiftRight<16>(b32));
  return hn::Add(sum, hn::Add(even, odd));
#endif
}

/// The sum of both halves of the weights, rounded, as an integer still to be clipped to 0..255.
template <class V32>
HWY_INLINE V32 recombine(V32 low, V32 high) {
  return hn::ShiftRight<kWeightBits>(hn::Add(low, hn::ShiftLeft<kSplitBits>(high)));
}

// Vectors of at most two 16-byte blocks, each block holding four pixels of one row.
using D8 = hn::CappedTag<std::uint8_t, 32>;
using V8 = hn::Vec<D8>;

HWY_INLINE V8 load_rows(D8 d, const std::uint8_t* const* rows, std::size_t offset) {
#if HWY_MAX_BYTES >= 32
  const hn::Half<D8> half;
  return hn::Combine(d, hn::LoadU(half, rows[1] + offset), hn::LoadU(half, rows[0] + offset));
#else
  return hn::LoadU(d, rows[0] + offset);
#endif
}

void band_kernel(const SourceBand& rows, const AxisWeights& axis, const OutputBand& out) {
  const D8 d8;
  const hn::Repartition<std::int16_t, D8> d16;
  const hn::Repartition<std::int32_t, D8> d32;
  using V32 = hn::Vec<decltype(d32)>;
  constexpr int kRowsPerVector = static_cast<int>(hn::MaxLanes(D8()) / 16);
  constexpr int kVectors = 4;
  constexpr int kRows = kRowsPerVector * kVectors;
  static_assert(kBandRows % kRows == 0);

  // Four RGB pixels are 12 bytes: bring taps 0 and 1 (2 and 3) of each channel together, as int16.
  alignas(16) constexpr std::uint8_t kTaps01[16] = {0, 0x80, 3, 0x80, 1,    0x80, 4,    0x80,
                                                    2, 0x80, 5, 0x80, 0x80, 0x80, 0x80, 0x80};
  alignas(16) constexpr std::uint8_t kTaps23[16] = {6, 0x80, 9,  0x80, 7,    0x80, 10,   0x80,
                                                    8, 0x80, 11, 0x80, 0x80, 0x80, 0x80, 0x80};
  const V8 taps01 = hn::LoadDup128(d8, kTaps01);
  const V8 taps23 = hn::LoadDup128(d8, kTaps23);
  const V32 round = hn::Set(d32, kRound);

  for (int row = 0; row < kBandRows; row += kRows) {
    const std::uint8_t* const* sources = rows.data() + row;
    std::uint8_t* const* targets = out.data() + row;
    for (int index = 0; index < axis.out; ++index) {
      const std::int32_t* HWY_RESTRICT words = axis.row(index);
      const int groups = axis.groups(index);
      std::size_t offset = static_cast<std::size_t>(axis.start(index)) * 3;
      V32 low0 = round;
      V32 low1 = round;
      V32 low2 = round;
      V32 low3 = round;
      V32 high0 = hn::Zero(d32);
      V32 high1 = high0;
      V32 high2 = high0;
      V32 high3 = high0;
      for (int group = 0; group < groups; ++group) {
        const auto low01 = hn::BitCast(d16, hn::Set(d32, words[0]));
        const auto low23 = hn::BitCast(d16, hn::Set(d32, words[1]));
        const auto high01 = hn::BitCast(d16, hn::Set(d32, words[2]));
        const auto high23 = hn::BitCast(d16, hn::Set(d32, words[3]));
        const auto add = [&](int vector, V32& low, V32& high) HWY_ATTR {
          const V8 pixels = load_rows(d8, sources + vector * kRowsPerVector, offset);
          const auto first = hn::BitCast(d16, hn::TableLookupBytesOr0(pixels, taps01));
          const auto second = hn::BitCast(d16, hn::TableLookupBytesOr0(pixels, taps23));
          low = dot_pairs(d32, first, low01, low);
          high = dot_pairs(d32, first, high01, high);
          low = dot_pairs(d32, second, low23, low);
          high = dot_pairs(d32, second, high23, high);
        };
        add(0, low0, high0);
        add(1, low1, high1);
        add(2, low2, high2);
        add(3, low3, high3);
        words += kWordsPerGroup;
        offset += kTapsPerGroup * 3;
      }
      const auto store = [&](int vector, V32 low, V32 high) HWY_ATTR {
        const hn::Rebind<std::uint8_t, decltype(d32)> narrow;
        alignas(16) std::uint8_t bytes[4 * kRowsPerVector];
        hn::Store(hn::DemoteTo(narrow, recombine(low, high)), narrow, bytes);
        for (int lane = 0; lane < kRowsPerVector; ++lane) {
          // The next pixel overwrites the fourth byte, or it falls into the padding.
          std::memcpy(targets[vector * kRowsPerVector + lane] + static_cast<std::size_t>(index) * 3,
                      bytes + 4 * lane, 4);
        }
      };
      store(0, low0, high0);
      store(1, low1, high1);
      store(2, low2, high2);
      store(3, low3, high3);
    }
  }
}

template <class D32>
HWY_INLINE hn::Vec<hn::Rebind<std::uint8_t, D32>> blend_chunk(
    D32 d32, const std::uint8_t* const* rows, const std::int32_t* HWY_RESTRICT words, int groups,
    std::size_t offset) {
  const hn::Rebind<std::uint8_t, D32> d8;
  const hn::Repartition<std::int16_t, D32> d16;
  auto low = hn::Set(d32, kRound);
  auto high = hn::Zero(d32);
  for (int group = 0; group < groups; ++group) {
    for (int half = 0; half < 2; ++half) {
      const auto earlier = hn::PromoteTo(d32, hn::LoadU(d8, rows[2 * half] + offset));
      const auto later = hn::PromoteTo(d32, hn::LoadU(d8, rows[2 * half + 1] + offset));
      const auto taps = hn::BitCast(d16, hn::Or(earlier, hn::ShiftLeft<16>(later)));
      low = dot_pairs(d32, taps, hn::BitCast(d16, hn::Set(d32, words[half])), low);
      high = dot_pairs(d32, taps, hn::BitCast(d16, hn::Set(d32, words[half + 2])), high);
    }
    rows += kTapsPerGroup;
    words += kWordsPerGroup;
  }
  return hn::DemoteTo(d8, recombine(low, high));
}

void blend_kernel(const std::uint8_t* const* rows, const std::int32_t* words, int groups,
                  std::size_t bytes, std::uint8_t* out) {
  const hn::ScalableTag<std::int32_t> d32;
  const hn::Rebind<std::uint8_t, decltype(d32)> d8;
  const std::size_t lanes = hn::Lanes(d32);
  if (bytes < lanes) {
    HWY_ALIGN std::uint8_t whole[hn::MaxLanes(d32)];
    hn::StoreU(blend_chunk(d32, rows, words, groups, 0), d8, whole);
    std::copy_n(whole, bytes, out);
    return;
  }
  for (std::size_t offset = 0; offset + lanes <= bytes; offset += lanes) {
    hn::StoreU(blend_chunk(d32, rows, words, groups, offset), d8, out + offset);
  }
  if (bytes % lanes != 0) {  // one more vector that ends at the last byte
    const std::size_t offset = bytes - lanes;
    hn::StoreU(blend_chunk(d32, rows, words, groups, offset), d8, out + offset);
  }
}

#endif

const char* target_kernel() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace fovea::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::image {

HWY_EXPORT(band_kernel);
HWY_EXPORT(blend_kernel);
HWY_EXPORT(target_kernel);

void resize_row_band(const SourceBand& rows, const AxisWeights& axis, const OutputBand& out) {
  HWY_DYNAMIC_DISPATCH(band_kernel)(rows, axis, out);
}

void blend_rows(const std::uint8_t* const* rows, const std::int32_t* words, int groups,
                std::size_t bytes, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_kernel)(rows, words, groups, bytes, out);
}

const char* resize_target() {
  return HWY_DYNAMIC_DISPATCH(target_kernel)();
}

}  // namespace fovea::image
#endif
