// LayerNorm and row norms: chooses the kernel for a problem, and its grid.
#include "gpu/launch/norm.hpp"

#include <iterator>

#include <fmt/format.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/norm/norm_params.hpp"

namespace fovea::gpu {
namespace {

using ops::LayerNormOperands;
using ops::LayerNormProblem;

constexpr std::int64_t kChunk = 256;  // elements of a row per warp step: 8 per lane
constexpr std::int64_t kWarps = norm::kThreads / 32;

/// The kernels whose registers hold rows of `chunks` chunks, and how many blocks of them an SM
/// holds. Each block computes many rows.
struct Shape {
  int chunks = 0;
  KernelId bf16{};
  KernelId f32{};
  KernelId mxfp8{};  // for bf16 inputs
  KernelId row_norm{};
  int blocks_per_sm = 0;
  int row_norm_blocks_per_sm = 0;
};
constexpr Shape kShapes[] = {{.chunks = 3,
                              .bf16 = KernelId::layer_norm_bf16_3,
                              .f32 = KernelId::layer_norm_f32_3,
                              .mxfp8 = KernelId::layer_norm_mxfp8_3,
                              .row_norm = KernelId::row_norm_bf16_3,
                              .blocks_per_sm = 7,
                              .row_norm_blocks_per_sm = 9},
                             {.chunks = 5,
                              .bf16 = KernelId::layer_norm_bf16_5,
                              .f32 = KernelId::layer_norm_f32_5,
                              .mxfp8 = KernelId::layer_norm_mxfp8_5,
                              .row_norm = KernelId::row_norm_bf16_5,
                              .blocks_per_sm = 5,
                              .row_norm_blocks_per_sm = 6},
                             {.chunks = 8,
                              .bf16 = KernelId::layer_norm_bf16_8,
                              .f32 = KernelId::layer_norm_f32_8,
                              .mxfp8 = KernelId::layer_norm_mxfp8_8,
                              .row_norm = KernelId::row_norm_bf16_8,
                              .blocks_per_sm = 4,
                              .row_norm_blocks_per_sm = 4}};

/// Returns the smallest kernel that fits; null when the row is too wide for all kernels.
const Shape* find_shape(std::int64_t width) {
  for (const Shape& shape : kShapes) {
    if (width <= shape.chunks * kChunk) {
      return &shape;
    }
  }
  return nullptr;
}

Support holds_width(std::int64_t width) {
  return width % 8 == 0 && find_shape(width) != nullptr
             ? Support{}
             : Support{fmt::format("unsupported row width {}; expected a multiple of 8 up to {}",
                                   width, std::rbegin(kShapes)->chunks * kChunk)};
}

LaunchConfig norm_grid(std::int64_t rows, const DeviceInfo& device, int blocks_per_sm) {
  return resident_grid(rows, kWarps, norm::kThreads, blocks_per_sm, device);
}

norm::Output norm_output(const LayerNormProblem& problem) {
  return problem.output == DType::kBF16  ? norm::Output::kBF16
         : problem.output == DType::kF32 ? norm::Output::kF32
                                         : norm::Output::kI8;
}

}  // namespace

Support can_run(const LayerNormProblem& problem, const DeviceInfo& device) {
  if (Support support = valid(problem); !support) {
    return support;
  }
  if (problem.input != DType::kBF16 && problem.input != DType::kF32) {
    return {
        fmt::format("unsupported input type {}; expected bf16 or f32", to_string(problem.input))};
  }
  if (problem.output == DType::kMXFP8) {
    if (problem.input != DType::kBF16) {
      return {fmt::format("unsupported input type {} of mxfp8 results; expected bf16",
                          to_string(problem.input))};
    }
    const Support width = holds_width(problem.width);
    return width ? has_kernel(find_shape(problem.width)->mxfp8, device) : width;
  }
  const bool bytes = problem.output == DType::kI8;
  if (problem.output != DType::kBF16 && problem.output != DType::kF32 && !bytes) {
    return {fmt::format("unsupported output type {}; expected bf16, f32, i8 or mxfp8",
                        to_string(problem.output))};
  }
  if (bytes && !problem.row_scales) {
    return {"results of i8 need a scale for each row"};
  }
  return holds_width(problem.width);
}

Launch layer_norm_launch(Device& device, const LayerNormProblem& problem,
                         const LayerNormOperands& operands) {
  if (const Support support = can_run(problem, device.info()); !support) {
    fail("{}: {}", to_string(problem), support.why);
  }
  const Shape& shape = *find_shape(problem.width);
  const norm::Params params{
      .input = pointer<const void>(operands.input),
      .weight = pointer<const float>(operands.weight),
      .bias = pointer<const float>(operands.bias),
      .output = pointer<void>(operands.output),
      .row_scale = pointer<float>(operands.row_scale),
      .rows = problem.rows,
      .width = static_cast<std::int32_t>(problem.width),
      .output_type = norm_output(problem),
      .inverse_width = static_cast<float>(1.0 / static_cast<double>(problem.width)),
      .eps = static_cast<float>(problem.eps),
      .block_scales = pointer<void>(operands.block_scales),
  };
  return {.kernel = problem.output == DType::kMXFP8 ? shape.mxfp8
                    : problem.input == DType::kBF16 ? shape.bf16
                                                    : shape.f32,
          .config = norm_grid(problem.rows, device.info(), shape.blocks_per_sm),
          .params = to_bytes(params)};
}

std::string to_string(const RowNormProblem& problem) {
  return fmt::format("row_norm [{}, {}] {}, eps {}", problem.rows, problem.width,
                     to_string(problem.input), problem.eps);
}

Support can_run(const RowNormProblem& problem, const DeviceInfo& device) {
  if (Support support = valid(LayerNormProblem{.rows = problem.rows,
                                               .width = problem.width,
                                               .eps = problem.eps,
                                               .input = problem.input});
      !support) {
    return support;
  }
  if (problem.input != DType::kBF16) {
    return {fmt::format("unsupported input type {}; expected bf16", to_string(problem.input))};
  }
  if (Support support = holds_width(problem.width); !support) {
    return support;
  }
  return has_kernel(find_shape(problem.width)->row_norm, device);
}

Launch row_norm_launch(Device& device, const RowNormProblem& problem,
                       const RowNormOperands& operands) {
  if (const Support support = can_run(problem, device.info()); !support) {
    fail("{}: {}", to_string(problem), support.why);
  }
  const Shape& shape = *find_shape(problem.width);
  const norm::Params params{
      .input = pointer<const void>(operands.input),
      .output = pointer<void>(operands.norms),
      .rows = problem.rows,
      .width = static_cast<std::int32_t>(problem.width),
      .inverse_width = static_cast<float>(1.0 / static_cast<double>(problem.width)),
      .eps = static_cast<float>(problem.eps),
  };
  return {.kernel = shape.row_norm,
          .config = norm_grid(problem.rows, device.info(), shape.row_norm_blocks_per_sm),
          .params = to_bytes(params)};
}

}  // namespace fovea::gpu
