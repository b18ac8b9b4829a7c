// The operators as torch calls them; their schemas are in library.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "python/native/tensor.hpp"

namespace fovea::torch_operators {

Tensor attention(Tensor q, Tensor k, Tensor v, bool is_causal, std::optional<double> scale,
                 std::int64_t level);
Tensor attention_varlen(Tensor q, Tensor k, Tensor v, const Tensor& cu_seqlens_q,
                        const Tensor& cu_seqlens_k, std::int64_t max_q, std::int64_t max_k,
                        bool is_causal, std::optional<double> scale, std::int64_t level);
Tensor patch_embed(Tensor patches, Tensor weight, Tensor position, std::optional<Tensor> scale);
Tensor linear(Tensor x, Tensor weight, std::optional<Tensor> bias, std::optional<Tensor> residual,
              bool gelu);
Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps);

}  // namespace fovea::torch_operators
