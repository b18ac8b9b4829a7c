// The heads of both towers on a GPU: a few launches from tokens to embeddings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"
#include "ops/pool/op.hpp"
#include "ops/project/op.hpp"

namespace fovea::gpu {

/// A linear layer: weight bf16 (out, in), bias f32 (out).
struct PoolLinear {
  DevicePtr weight = 0;
  DevicePtr bias = 0;
};

struct PoolOperands {
  DevicePtr x = 0;          // bf16 (images * tokens, hidden)
  DevicePtr output = 0;     // f32 (images, hidden)
  DevicePtr workspace = 0;  // pool_workspace_bytes(), 256-byte aligned
  DevicePtr starts = 0;     // ops::ImageShapes::starts of images with different numbers of tokens
  DevicePtr keys = 0;       // `keys` and `key_sums` are from pack_pool_keys()
  DevicePtr key_sums = 0;
  DevicePtr norm_weight = 0;  // f32 (hidden)
  DevicePtr norm_bias = 0;
  PoolLinear value, out, fc1, fc2;
};

/// Whether the GPU pools bf16 tokens for this problem. The layer norm of the tokens is folded into
/// the weights: its weight into the keys and the columns of `value`, its bias into `value`'s bias.
[[nodiscard]] Support can_run(const ops::PoolProblem& problem, const DeviceInfo& device);

/// Keys in the layout of the kernels, with zeros for heads that the model does not have.
struct PackedPoolKeys {
  std::vector<BFloat16> keys;  // (kMaxHeads, hidden)
  std::vector<float> sums;     // (kMaxHeads), sums of the rounded keys
};

/// Rounds and pads `keys` (heads, hidden).
[[nodiscard]] PackedPoolKeys pack_pool_keys(std::span<const float> keys, std::int64_t hidden);

/// Returns the size of the workspace for pool_launches; it grows with the number of images.
[[nodiscard]] std::size_t pool_workspace_bytes(const ops::PoolProblem& problem);

/// Returns the launches of the head, in order. Throws fovea::Error with can_run's reason.
[[nodiscard]] std::vector<Launch> pool_launches(Device& device, const ops::PoolProblem& problem,
                                                const PoolOperands& operands);

struct ProjectOperands {
  DevicePtr x = 0;            // bf16 (sequences * tokens, hidden)
  DevicePtr output = 0;       // f32 (sequences, out)
  DevicePtr workspace = 0;    // project_workspace_bytes(), 256-byte aligned
  DevicePtr norm_weight = 0;  // f32 (hidden)
  DevicePtr norm_bias = 0;
  PoolLinear linear;
};

[[nodiscard]] Support can_run(const ops::ProjectProblem& problem, const DeviceInfo& device);

/// Returns the size of the workspace for project_launches; it grows with the number of sequences.
[[nodiscard]] std::size_t project_workspace_bytes(const ops::ProjectProblem& problem);

/// Returns the launches of the text tower's head, in order: the norm of all tokens, and the
/// projection of the pooled token by the pooling head's kernels. Throws fovea::Error with can_run's
/// reason.
[[nodiscard]] std::vector<Launch> project_launches(Device& device,
                                                   const ops::ProjectProblem& problem,
                                                   const ProjectOperands& operands);

}  // namespace fovea::gpu
