// Launches around the patch embedding: pixels to bf16, and the position table for every image.
#pragma once

#include <cstdint>

#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"
#include "ops/call.hpp"

namespace fovea::gpu {

/// output bf16 (rows, stride) = pixels u8 (rows, width) - ops::kPixelCentre, zeros beyond width.
/// Exact.
[[nodiscard]] Launch pixels_launch(const DeviceInfo& device, DevicePtr pixels, DevicePtr output,
                                   std::int64_t rows, std::int64_t width, std::int64_t stride);

/// output bf16 (copies, size) = source bf16 (size) for each copy; size is a multiple of 8.
[[nodiscard]] Launch repeat_launch(const DeviceInfo& device, DevicePtr source, DevicePtr output,
                                   std::int64_t size, std::int64_t copies);

/// A position table f32 (side, side, width) for images of different sizes; width is a multiple
/// of 8.
struct PositionsProblem {
  std::int64_t images = 0;
  std::int64_t rows = 0;  // of all images
  std::int64_t side = 0;
  std::int64_t width = 0;
};

/// output bf16 (rows, width) = the table, resized to the patches of each image, for each patch.
[[nodiscard]] Launch positions_launch(const DeviceInfo& device, const PositionsProblem& problem,
                                      DevicePtr table, const ops::ImageShapes& shapes,
                                      DevicePtr output);

}  // namespace fovea::gpu
