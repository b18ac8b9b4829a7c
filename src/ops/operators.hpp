// The operators, listed: what executors run, and what backends prepare.
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

/// An operator with all that it is given.
using Call = std::variant<PatchEmbedCall, LayerNormCall, LinearCall, AttentionCall, PoolCall,
                          ProjectCall, ConvertCall>;

/// Weights of an operator as a model file gives them: float32 in host memory.
using Weights =
    std::variant<PatchEmbedWeights, LayerNormWeights, LinearWeights, PoolWeights, ProjectWeights>;

/// Problems that not every backend runs: whether it does is asked before weights are prepared.
using BackendProblem = std::variant<PatchEmbedProblem, LinearProblem, PoolProblem, ProjectProblem>;

}  // namespace fovea::ops
