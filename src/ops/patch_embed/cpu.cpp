// The patch embedding on the CPU.
#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "cpu/cpu_executor.hpp"
#include "cpu/host_threads.hpp"
#include "ops/patch_embed/op.hpp"
#include "ops/position.hpp"
#include "ops/rounding.hpp"

namespace fovea::ops {
namespace {

struct PatchEmbedParameters : public Prepared {
  std::unique_ptr<cpu::PackedWeights> projection;  // for centred pixels, or for 8-bit pixels
  AlignedBuffer<float> position;
  AlignedBuffer<float> prefix;
};

/// Writes rows [first, first + rows) of the resized position tables of images of different sizes.
void resize_positions(const PatchEmbedProblem& problem, std::span<const float> table,
                      const ImageShapes& shapes, std::int64_t first, std::int64_t rows,
                      float* output) {
  const std::span starts(pointer<const std::int32_t>(shapes.starts),
                         static_cast<std::size_t>(problem.images) + 1);
  const auto* const grids = pointer<const std::int32_t>(shapes.grids);
  auto image =
      static_cast<std::size_t>(std::ranges::upper_bound(starts, first) - starts.begin()) - 1;
  for (std::int64_t row = first; row < first + rows; ++image) {
    const ResizedPositions resized(table, problem.position_side, problem.hidden,
                                   {.height = grids[2 * image], .width = grids[2 * image + 1]});
    const std::int64_t end = std::min<std::int64_t>(first + rows, starts[image + 1]);
    for (; row < end; ++row) {
      resized.row(row - starts[image], output + row * problem.hidden);
    }
  }
}

}  // namespace

void run(const PatchEmbedCall& call, cpu::CpuExecutor& executor) {
  const PatchEmbedProblem& problem = call.problem;
  const auto& parameters = dynamic_cast<const PatchEmbedParameters&>(call.weights);
  auto* const tokens = call.tokens.as<float>();
  const std::int64_t sequence = problem.prefix + problem.tokens;
  executor.share_rows(problem.rows(), [&](std::int64_t first, std::int64_t rows) {
    if (problem.varlen()) {
      resize_positions(problem, parameters.position.span(), call.shapes, first, rows, tokens);
      return;
    }
    for (std::int64_t row = first; row < first + rows; ++row) {
      const std::int64_t token = row % sequence - problem.prefix;
      const float* const start = token < 0
                                     ? parameters.prefix.data() + row % sequence * problem.hidden
                                     : parameters.position.data() + token * problem.hidden;
      std::memcpy(tokens + row * problem.hidden, start,
                  static_cast<std::size_t>(problem.hidden) * sizeof(float));
    }
  });
  // The rows of all images are contiguous when there are no prefix tokens.
  const std::int64_t parts = problem.prefix > 0 ? problem.images : 1;
  const std::int64_t rows = problem.patches() / parts;
  const std::int64_t width = problem.patch_elements;
  for (std::int64_t part = 0; part < parts; ++part) {
    executor.multiply(
        {*parameters.projection,
         {call.patches.as<std::uint8_t>() + part * rows * width, DType::kU8, width, rows, width},
         Epilogue::kResidual,
         DType::kF32,
         tokens + (part * sequence + problem.prefix) * problem.hidden,
         problem.hidden});
  }
}

PreparedPtr prepare(const PatchEmbedWeights& weights, const cpu::CpuTypes& types) {
  const DType pixels = types.normed == DType::kI8 ? DType::kU8 : types.normed;
  const FoldedPatchEmbed folded = fold_pixels(weights, pixels, weights.projection.in);
  auto parameters = std::make_unique<PatchEmbedParameters>();
  parameters->position = AlignedBuffer<float>(folded.position.size());
  std::ranges::copy(folded.position, parameters->position.data());
  parameters->prefix = AlignedBuffer<float>(weights.prefix.size());
  std::ranges::copy(weights.prefix, parameters->prefix.data());
  parameters->projection = std::make_unique<cpu::PackedWeights>(folded.projection(), pixels);
  return parameters;
}

Support can_run(const PatchEmbedProblem& problem, const cpu::CpuTypes& /*types*/) {
  return valid(problem);
}

void run(const PatchEmbedProblem& problem, const PatchEmbedOperands& operands,
         const cpu::HostThreads& threads) {
  const std::int64_t image_size = problem.tokens * problem.hidden;
  threads.share(problem.images, [&](std::int64_t image) {
    std::memcpy(cpu::at(pointer<void>(operands.output), image * image_size, problem.output),
                pointer<const void>(operands.position),
                static_cast<std::size_t>(image_size) * size_of(problem.output));
  });
  run(LinearProblem{.rows = problem.rows(),
                    .in = problem.patch_elements,
                    .out = problem.hidden,
                    .epilogue = Epilogue::kResidual,
                    .input = problem.input,
                    .output = problem.output},
      LinearOperands{.input = operands.patches,
                     .weight = operands.weight,
                     .scale = operands.scale,
                     .output = operands.output},
      threads);
}

}  // namespace fovea::ops
