// Every operator in plain float64 C++: what the backends are compared with.
#pragma once

#include "core/tensor_view.hpp"
#include "ops/problem.hpp"
#include "ops/weights.hpp"

namespace fovea::ops::reference {

/// Element `index` of a view as float64, whatever its type (u8 included).
[[nodiscard]] double load(const ConstTensorView& view, std::int64_t index);
/// Rounds `value` to the view's type.
void store(const TensorView& view, std::int64_t index, double value);

/// As Executor's operators, on host memory and on weights as the model file gives them.
void patch_embed(const PatchEmbedProblem& problem, const PatchEmbedWeights& weights,
                 const ConstTensorView& patches, const TensorView& tokens);
void layer_norm(const LayerNormProblem& problem, const LayerNormWeights& weights,
                const ConstTensorView& input, const TensorView& output);
void linear(const LinearProblem& problem, const LinearWeights& weights,
            const ConstTensorView& input, const TensorView& output);
/// Sequences of one length, strides and all.
void attention(const AttentionProblem& problem, const AttentionOperands& operands);
void pool(const PoolProblem& problem, const PoolWeights& weights, const ConstTensorView& input,
          const TensorView& output);
void project(const ProjectProblem& problem, const ProjectWeights& weights,
             const ConstTensorView& input, const TensorView& output);

}  // namespace fovea::ops::reference
