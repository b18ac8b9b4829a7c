// The pooling head on a GPU: a few launches from tokens to embeddings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"
#include "ops/pool.hpp"

namespace fovea::gpu {

/// weight bf16 (out, in), bias f32 (out).
struct PoolLinear {
  DevicePtr weight = 0;
  DevicePtr bias = 0;
};

struct PoolOperands {
  DevicePtr x = 0;          // bf16 (images * tokens, hidden)
  DevicePtr output = 0;     // f32 (images, hidden)
  DevicePtr workspace = 0;  // pool_workspace_bytes(), 256-byte aligned
  DevicePtr keys = 0;       // pack_pool_keys(), both
  DevicePtr key_sums = 0;
  DevicePtr norm_weight = 0;  // f32 (hidden)
  DevicePtr norm_bias = 0;
  PoolLinear value, out, fc1, fc2;
};

/// Of bf16 tokens whose layer norm is folded into the weights: its weight into the keys and the
/// columns of `value`, its bias into that of `value`.
[[nodiscard]] Support can_run(const ops::PoolProblem& problem, const DeviceInfo& device);

/// Keys as the kernels take them: with zeros for the heads that a model does not have.
struct PackedPoolKeys {
  std::vector<BFloat16> keys;  // (kMaxHeads, hidden)
  std::vector<float> sums;     // (kMaxHeads), of the keys as they are rounded
};

/// keys: (heads, hidden).
[[nodiscard]] PackedPoolKeys pack_pool_keys(std::span<const float> keys, std::int64_t hidden);

/// What pool_launches passes through `workspace`; more images need more.
[[nodiscard]] std::size_t pool_workspace_bytes(const ops::PoolProblem& problem);

/// What runs the head, in order. Throws fovea::Error with can_run's reason.
[[nodiscard]] std::vector<Launch> pool_launches(Device& device, const ops::PoolProblem& problem,
                                                const PoolOperands& operands);

}  // namespace fovea::gpu
