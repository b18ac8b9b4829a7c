// Parameters of the kernels for the patch embedding's operands; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::pixels {

inline constexpr int kThreads = 256;
inline constexpr int kUnit = 8;  // elements that a thread writes at once: 16 bytes of bf16

/// Parameters of `widen`: output (rows, stride) = pixels (rows, width) - 128 as bf16, which is
/// exact; zeros beyond width.
struct WidenParams {
  const std::uint8_t* pixels = nullptr;
  std::uint16_t* output = nullptr;  // bf16
  std::int64_t rows = 0;
  std::int32_t width = 0;
  std::int32_t stride = 0;  // a multiple of kUnit
};

/// Parameters of `repeat`: output (copies * size) is `copies` copies of source (size).
struct RepeatParams {
  const std::uint16_t* source = nullptr;  // bf16
  std::uint16_t* output = nullptr;
  std::int64_t size = 0;  // a multiple of kUnit
  std::int64_t copies = 0;
};

/// Parameters of `positions`: output (rows, width) is the position table, resized to the patches of
/// each image.
struct PositionParams {
  const float* table = nullptr;          // (side, side, width)
  const std::int32_t* starts = nullptr;  // (images + 1): the first row of each image
  const std::int32_t* grids = nullptr;   // (images, 2): height and width in patches
  std::uint16_t* output = nullptr;       // bf16
  std::int32_t rows = 0;
  std::int32_t images = 0;
  std::int32_t side = 0;
  std::int32_t width = 0;  // a multiple of kUnit
};

}  // namespace fovea::pixels
