// The list of operators: variants of their calls, weights and problems.
#pragma once

#include <variant>

#include "ops/attention/op.hpp"
#include "ops/convert/op.hpp"
#include "ops/layer_norm/op.hpp"
#include "ops/linear/op.hpp"
#include "ops/patch_embed/op.hpp"
#include "ops/pool/op.hpp"
#include "ops/project/op.hpp"

namespace fovea::ops {

/// A call of any operator.
using Call = std::variant<PatchEmbedCall, LayerNormCall, LinearCall, AttentionCall, PoolCall,
                          ProjectCall, ConvertCall>;

/// Weights of any operator, as read from a model: float32 in host memory.
using Weights =
    std::variant<PatchEmbedWeights, LayerNormWeights, LinearWeights, PoolWeights, ProjectWeights>;

/// Problems that not every backend supports: check can_run before preparing weights.
using BackendProblem = std::variant<PatchEmbedProblem, LinearProblem, PoolProblem, ProjectProblem>;

}  // namespace fovea::ops
