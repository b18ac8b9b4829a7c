// Attention on a GPU: softmax(scale Q K^T) V for every image and head; problem, plan and launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"

namespace fovea::gpu {

/// Element (b, n, h, d) of an operand lies at b * batch_stride + n * row_stride + h * head_stride +
/// d. Strides count elements and are multiples of 8. Packed projections, a row of which holds q, k
/// and v one after the other, are three operands of row stride 3 * heads * head_dim.
struct AttentionStrides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t head = 0;
};

struct AttentionProblem {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t queries = 0;   // length of q
  std::int64_t keys = 0;      // length of k and v
  std::int64_t head_dim = 0;  // 64, 72, 96, 128
  double scale = 1.0;
  bool causal = false;          // query i sees keys 0 .. i + keys - queries
  DType type = DType::kBF16;    // of q, k, v: kBF16 or kF16
  DType output = DType::kBF16;  // type, or kE4M3
  AttentionStrides q, k, v, o;
};

struct AttentionOperands {
  DevicePtr q = 0;
  DevicePtr k = 0;
  DevicePtr v = 0;
  DevicePtr o = 0;
};

/// The problem of the encoder: qkv [images * tokens, 3 * heads * head_dim] -> [.., heads *
/// head_dim].
[[nodiscard]] AttentionProblem packed_attention(std::int64_t images, std::int64_t tokens,
                                                std::int64_t heads, std::int64_t head_dim,
                                                double scale, DType type, DType output);
/// Its operands.
[[nodiscard]] AttentionOperands packed_operands(const AttentionProblem& problem, DevicePtr qkv,
                                                DevicePtr output);

[[nodiscard]] std::string to_string(const AttentionProblem& problem);

enum class AttentionDesign : std::uint8_t {
  kShort,     // sm_90a: all keys of a head on chip, one softmax a row
  kFlash,     // sm_90a: keys stream through in blocks
  kPortable,  // mma.sync
};

/// How a problem is run: a design, and the one of its kernels.
struct AttentionPlan {
  AttentionDesign design = AttentionDesign::kPortable;
  int kernel = 0;  // its place in the tables of kernels/attention/params.hpp
};

/// "short_d64_k200": as the kernel is called.
[[nodiscard]] std::string to_string(const AttentionPlan& plan);

/// Why no kernel of this program runs the problem on this device; empty when one does.
[[nodiscard]] std::string can_run(const AttentionProblem& problem, const DeviceInfo& device);
/// The plans there are, best first. None when can_run has a reason.
[[nodiscard]] std::vector<AttentionPlan> attention_plans(const AttentionProblem& problem,
                                                         const DeviceInfo& device);
/// The launch that runs it as planned.
[[nodiscard]] Launch attention_launch(Device& device, const AttentionProblem& problem,
                                      const AttentionOperands& operands, const AttentionPlan& plan);
/// The launch that runs it, by the first of its plans. Throws fovea::Error with can_run's reason.
[[nodiscard]] Launch attention_launch(Device& device, const AttentionProblem& problem,
                                      const AttentionOperands& operands);

}  // namespace fovea::gpu
