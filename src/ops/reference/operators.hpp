// Every operator in plain float64 C++: what the backends are compared with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor_view.hpp"
#include "ops/image_shapes.hpp"
#include "ops/problem.hpp"
#include "ops/weights.hpp"

namespace fovea::ops::reference {

/// Element `index` of a view as float64, whatever its type (u8 included); one of kMXFP8 is a matrix
/// [rows, width].
[[nodiscard]] double load(const ConstTensorView& view, std::int64_t index);
/// Rounds `value` to the view's type, which is not kMXFP8.
void store(const TensorView& view, std::int64_t index, double value);
/// Rounds a row of a matrix [rows, width] to its type.
void store_row(const TensorView& view, std::int64_t row, std::span<const double> values);

/// The weights, one per row of a table, with which torch's F.interpolate(mode="bilinear",
/// align_corners=False, antialias=True) makes position `index` of `count` from it.
[[nodiscard]] std::vector<double> interpolation(std::int64_t index, std::int64_t count,
                                                std::int64_t table);

/// As Executor's operators, on host memory and on weights as the model file gives them.
void patch_embed(const PatchEmbedProblem& problem, const PatchEmbedWeights& weights,
                 const ConstTensorView& patches, const TensorView& tokens,
                 const ImageShapes& shapes = {});
void layer_norm(const LayerNormProblem& problem, const LayerNormWeights& weights,
                const ConstTensorView& input, const TensorView& output);
void linear(const LinearProblem& problem, const LinearWeights& weights,
            const ConstTensorView& input, const TensorView& output);
/// Strides and all.
void attention(const AttentionProblem& problem, const AttentionOperands& operands);
void pool(const PoolProblem& problem, const PoolWeights& weights, const ConstTensorView& input,
          const TensorView& output, const ImageShapes& shapes = {});
void project(const ProjectProblem& problem, const ProjectWeights& weights,
             const ConstTensorView& input, const TensorView& output);

}  // namespace fovea::ops::reference
