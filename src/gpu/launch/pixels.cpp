// Computes the grids of the kernels around the patch embedding.
#include "gpu/launch/pixels.hpp"

#include "core/error.hpp"
#include "kernels/pixels/pixels_params.hpp"

namespace fovea::gpu {
namespace {

constexpr std::int64_t kBlocksPerSm = 8;  // the maximum for blocks of 256 threads

LaunchConfig pixel_grid(const DeviceInfo& device, std::int64_t elements) {
  return resident_grid(elements / pixels::kUnit, pixels::kThreads, pixels::kThreads, kBlocksPerSm,
                       device);
}

}  // namespace

Launch pixels_launch(const DeviceInfo& device, DevicePtr pixels, DevicePtr output,
                     std::int64_t rows, std::int64_t width, std::int64_t stride) {
  if (rows <= 0 || width <= 0 || stride < width || stride % pixels::kUnit != 0) {
    fail("pixels: cannot convert {} rows of {} elements to rows of {}", rows, width, stride);
  }
  const pixels::WidenParams params{.pixels = pointer<const std::uint8_t>(pixels),
                                   .output = pointer<std::uint16_t>(output),
                                   .rows = rows,
                                   .width = static_cast<std::int32_t>(width),
                                   .stride = static_cast<std::int32_t>(stride)};
  return {.kernel = KernelId::pixels_widen,
          .config = pixel_grid(device, rows * stride),
          .params = to_bytes(params)};
}

Launch repeat_launch(const DeviceInfo& device, DevicePtr source, DevicePtr output,
                     std::int64_t size, std::int64_t copies) {
  if (size <= 0 || copies <= 0 || size % pixels::kUnit != 0) {
    fail("cannot make {} copies of {} elements", copies, size);
  }
  const pixels::RepeatParams params{.source = pointer<const std::uint16_t>(source),
                                    .output = pointer<std::uint16_t>(output),
                                    .size = size,
                                    .copies = copies};
  return {.kernel = KernelId::pixels_repeat,
          .config = pixel_grid(device, size * copies),
          .params = to_bytes(params)};
}

Launch positions_launch(const DeviceInfo& device, const PositionsProblem& problem, DevicePtr table,
                        const ops::ImageShapes& shapes, DevicePtr output) {
  constexpr std::int64_t kMaxRows = std::int64_t{1} << 30;  // the kernel counts in 32 bits
  if (problem.images <= 0 || problem.rows < problem.images || problem.rows > kMaxRows ||
      problem.side <= 0 || problem.width <= 0 || problem.width % pixels::kUnit != 0) {
    fail("cannot resize a position table of {0} x {0} x {1} to {2} patches of {3} images",
         problem.side, problem.width, problem.rows, problem.images);
  }
  const pixels::PositionParams params{.table = pointer<const float>(table),
                                      .starts = pointer<const std::int32_t>(shapes.starts),
                                      .grids = pointer<const std::int32_t>(shapes.grids),
                                      .output = pointer<std::uint16_t>(output),
                                      .rows = static_cast<std::int32_t>(problem.rows),
                                      .images = static_cast<std::int32_t>(problem.images),
                                      .side = static_cast<std::int32_t>(problem.side),
                                      .width = static_cast<std::int32_t>(problem.width)};
  return {.kernel = KernelId::pixels_positions,
          .config = pixel_grid(device, problem.rows * 32 * pixels::kUnit),  // a warp per row
          .params = to_bytes(params)};
}

}  // namespace fovea::gpu
