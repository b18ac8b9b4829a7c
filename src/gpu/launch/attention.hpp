// Attention on a GPU: softmax(scale Q K^T) V for every image and head; problem, plan and launch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  std::int64_t batch = 0;     // sequences
  std::int64_t heads = 0;     // of q and o
  std::int64_t kv_heads = 0;  // of k and v; head h reads h / (heads / kv_heads). 0: heads
  std::int64_t queries = 0;   // length of q
  std::int64_t keys = 0;      // length of k and v
  std::int64_t head_dim = 0;  // 8 to 128 in steps of 8
  double scale = 1.0;
  /// Query i sees keys 0 .. i + keys - queries. Keys from `queries` on left out, that is the mask
  /// that begins with the first key (torch's is_causal).
  bool causal = false;
  DType type = DType::kBF16;  // of q, k, v and o: kBF16 or kF16
  /// Sequences of different lengths, one after the other in tensors (total, heads, head_dim):
  /// `queries` and `keys` are the greatest lengths, and strides have no use for `batch`. Sequence b
  /// has rows starts[b] to starts[b + 1]; a query that sees no key gets zeros.
  bool varlen = false;
  AttentionStrides q, k, v, o;

  [[nodiscard]] std::int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
};

struct AttentionOperands {
  DevicePtr q = 0;
  DevicePtr k = 0;
  DevicePtr v = 0;
  DevicePtr o = 0;
  /// With varlen: batch + 1 int32 on the device each, the first of them 0.
  DevicePtr cu_seqlens_q = 0;
  DevicePtr cu_seqlens_k = 0;
};

/// The problem of the encoder: qkv [images * tokens, 3 * heads * head_dim] -> [.., heads *
/// head_dim].
[[nodiscard]] AttentionProblem packed_attention(std::int64_t images, std::int64_t tokens,
                                                std::int64_t heads, std::int64_t head_dim,
                                                double scale, DType type);
/// Its operands.
[[nodiscard]] AttentionOperands packed_operands(const AttentionProblem& problem, DevicePtr qkv,
                                                DevicePtr output);

[[nodiscard]] std::string to_string(const AttentionProblem& problem);

/// What a kernel is made of, from the plainest to the fastest. A level that cannot run a problem
/// leaves it to the next one down.
enum class AttentionLevel : std::uint8_t {
  kScalar,  // sm_80 and later: multiply-adds in f32
  kWmma,    // sm_80 and later: matrix products of 16x16x16
  kMma,     // sm_80 and later: matrix products of 16x8x16, probabilities in registers, tuned
  kWgmma,   // sm_90a: TMA and warpgroups
};

/// "mma".
[[nodiscard]] std::string_view to_string(AttentionLevel level);
/// The names of all levels, from the plainest to the fastest.
[[nodiscard]] std::span<const std::string_view> attention_level_names();
/// The level of that name, if there is one.
[[nodiscard]] std::optional<AttentionLevel> parse_attention_level(std::string_view name);
/// The level that the environment variable FOVEA_FORCE_KERNEL names, if it is set. Throws
/// fovea::Error when there is no such level.
[[nodiscard]] std::optional<AttentionLevel> forced_attention_level();

enum class AttentionDesign : std::uint8_t {
  kSinglePass,  // sm_90a: all keys of a head on chip, one softmax a row
  kOnline,      // sm_90a: keys stream through in blocks
  kMma,         // mma.sync, tuned
  kMmaSmall,    // mma.sync in small tiles: the level wmma
  kScalar,      // multiply-adds
};

/// How a problem is run: a design, and the one of its kernels.
struct AttentionPlan {
  AttentionDesign design = AttentionDesign::kMma;
  int kernel = 0;  // its place in the design's table of kernels/variants.hpp
};

/// The kernel that runs it, for operands of kBF16 or kF16.
[[nodiscard]] KernelId kernel_of(const AttentionPlan& plan, DType type);
/// "single_pass_d64_k200": as the kernel is called.
[[nodiscard]] std::string to_string(const AttentionPlan& plan);
[[nodiscard]] AttentionLevel level_of(const AttentionPlan& plan);

/// Why no kernel of this program runs the problem on this device; empty when one does.
[[nodiscard]] std::string can_run(const AttentionProblem& problem, const DeviceInfo& device);
/// The same of the kernels of one level.
[[nodiscard]] std::string can_run(const AttentionProblem& problem, const DeviceInfo& device,
                                  AttentionLevel level);
/// The plans there are, best first. None when can_run has a reason.
[[nodiscard]] std::vector<AttentionPlan> attention_plans(const AttentionProblem& problem,
                                                         const DeviceInfo& device);
/// A level that missed one of its profile gates (lab/cards/attention.cpp) on GPUs of an
/// architecture, as `fovea kernel profile attention --level LEVEL --gate` measured it there.
struct MissedGate {
  int arch = 0;
  AttentionLevel level = AttentionLevel::kScalar;
  std::string_view measured;  // "matrix units busy 8.7% of the time, 40% wanted"
};
/// Those on record.
[[nodiscard]] std::span<const MissedGate> missed_gates();

struct AttentionChoice {
  AttentionPlan plan;
  /// What to tell the user, once, of a better plan whose level missed a gate; empty otherwise. Says
  /// nothing of sizes.
  std::string notice;
};

/// The plan that runs the problem: the best of `level`; without one, of forced_attention_level();
/// otherwise the best of the levels that missed no gate on this architecture, and of all when none
/// is left. Throws fovea::Error with can_run's reason, or as forced_attention_level() does.
[[nodiscard]] AttentionChoice choose_attention(const AttentionProblem& problem,
                                               const DeviceInfo& device,
                                               std::optional<AttentionLevel> level = std::nullopt,
                                               std::span<const MissedGate> missed = missed_gates());
/// Its plan alone.
[[nodiscard]] AttentionPlan attention_plan(const AttentionProblem& problem,
                                           const DeviceInfo& device,
                                           std::optional<AttentionLevel> level = std::nullopt);

/// The launch that runs it as planned. Kernel images are for the architecture of `device`.
[[nodiscard]] Launch attention_launch(Device& device, const AttentionProblem& problem,
                                      const AttentionOperands& operands, const AttentionPlan& plan);
/// The launch that runs it by attention_plan's choice. Throws as that does.
[[nodiscard]] Launch attention_launch(Device& device, const AttentionProblem& problem,
                                      const AttentionOperands& operands);

}  // namespace fovea::gpu
