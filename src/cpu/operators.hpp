// The operators on tensors that somebody else holds, by `threads` threads: strides, 16-bit types,
// nothing packed ahead.
#pragma once

#include <cstdint>

#include "cpu/worker.hpp"
#include "ops/problem.hpp"

namespace fovea::cpu {

/// Of kF32, kBF16 or kF16, all four.
void attention(const ops::AttentionProblem& problem, const ops::AttentionOperands& operands,
               int threads);
void linear(const ops::LinearProblem& problem, const ops::LinearOperands& operands, int threads);
void patch_embed(const ops::PatchEmbedProblem& problem, const ops::PatchEmbedOperands& operands,
                 int threads);
void layer_norm(const ops::LayerNormProblem& problem, const ops::LayerNormOperands& operands,
                int threads);

/// Some rows of it, by the calling thread.
void layer_norm(const ops::LayerNormProblem& problem, const ops::LayerNormOperands& operands,
                std::int64_t first, std::int64_t rows, Worker& worker);

}  // namespace fovea::cpu
