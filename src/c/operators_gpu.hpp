// The C operators on GPUs: work put into the caller's stream. Problems make sense, and operands
// have memory.
#pragma once

#include <optional>

#include "fovea/c/operators.h"
#include "gpu/launch/attention.hpp"
#include "ops/problem.hpp"

namespace fovea::c {

void attention_on_gpu(const ops::AttentionProblem& problem, const ops::AttentionOperands& operands,
                      std::optional<gpu::AttentionLevel> level, const fovea_place& place);
void linear_on_gpu(const ops::LinearProblem& problem, const ops::LinearOperands& operands,
                   const fovea_place& place);
void patch_embed_on_gpu(const ops::PatchEmbedProblem& problem,
                        const ops::PatchEmbedOperands& operands, const fovea_place& place);
void layer_norm_on_gpu(const ops::LayerNormProblem& problem, const ops::LayerNormOperands& operands,
                       const fovea_place& place);

/// The kernel that would run it. Throws when none does.
[[nodiscard]] fovea_attention_choice choose_on_gpu(const ops::AttentionProblem& problem,
                                                   const ops::AttentionOperands& operands,
                                                   std::optional<gpu::AttentionLevel> level,
                                                   const fovea_place& place);

}  // namespace fovea::c
