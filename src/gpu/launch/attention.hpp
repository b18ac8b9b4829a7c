// Attention on a GPU: from problem to plan, and from plan to launch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/dtype.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/gate_record.hpp"
#include "gpu/launch/launch.hpp"
#include "kernels/variants.hpp"
#include "ops/attention/op.hpp"

namespace fovea::gpu {

/// The instructions that a kernel uses, from the simplest to the fastest. If a level cannot run a
/// problem, the next lower one does.
enum class AttentionLevel : std::uint8_t {
  kScalar,  // sm_80 and later: multiply-adds in f32
  kWmma,    // sm_80 and later: matrix products of 16x16x16
  kMma,     // sm_80 and later: matrix products of 16x8x16, probabilities in registers, tuned
  kWgmma,   // sm_90a: TMA and warpgroups
};

/// Returns the name of a level, such as "mma".
[[nodiscard]] std::string_view to_string(AttentionLevel level);
/// Returns the names of all levels, from the simplest to the fastest.
[[nodiscard]] std::span<const std::string_view> attention_level_names();
/// Returns the level of this name, if there is one.
[[nodiscard]] std::optional<AttentionLevel> parse_attention_level(std::string_view name);
/// Returns the level that the environment variable FOVEA_FORCE_KERNEL names, if it is set. Throws
/// fovea::Error when there is no such level.
[[nodiscard]] std::optional<AttentionLevel> forced_attention_level();

/// The kernel for a problem, by its design; the pointer is never null.
using AttentionPlan = std::variant<
    const AttentionVariant<attention::SinglePassTuning>*,  // sm_90a: one softmax per row
    const AttentionVariant<attention::OnlineTuning>*,      // sm_90a: keys stream through in blocks
    const AttentionVariant<attention::MmaTuning>*,         // mma.sync, tuned
    const AttentionVariant<attention::MmaSmallTuning>*,    // mma.sync in small tiles: level wmma
    const AttentionVariant<attention::ScalarTuning>*>;     // multiply-adds

/// Returns the kernel of a plan for operands of kBF16 or kF16.
[[nodiscard]] KernelId kernel_of(const AttentionPlan& plan, DType type);
/// Returns the name of the kernel, such as "single_pass_d64_k200".
[[nodiscard]] std::string to_string(const AttentionPlan& plan);
[[nodiscard]] AttentionLevel plan_level(const AttentionPlan& plan);

/// Returns the resources of a plan's CTAs.
[[nodiscard]] CtaSize cta_size(const AttentionPlan& plan);

/// Whether a kernel can be compiled with the plan's tuning and run on the device; if not, because
/// its design does not support the tuning, or a CTA would need too much shared memory or too many
/// threads.
[[nodiscard]] Support can_be_made(const AttentionPlan& plan, const DeviceInfo& device);

/// Whether a kernel of this program runs the problem on this device: bf16 or f16 operands, head
/// dimensions of 8 to 128 in steps of 8, strides that are multiples of 8.
[[nodiscard]] Support can_run(const ops::AttentionProblem& problem, const DeviceInfo& device);
/// Whether a kernel of this level runs the problem.
[[nodiscard]] Support can_run(const ops::AttentionProblem& problem, const DeviceInfo& device,
                              AttentionLevel level);
/// Returns all plans for the problem, best first; none if can_run refuses the problem.
[[nodiscard]] std::vector<AttentionPlan> attention_plans(const ops::AttentionProblem& problem,
                                                         const DeviceInfo& device);
struct AttentionChoice {
  AttentionPlan plan;
  /// Notice for the user if a better plan was rejected because its level missed a gate, otherwise
  /// empty. Does not mention the problem's sizes.
  std::string notice;
};

/// Chooses the best plan of `level`; if it is not set, of forced_attention_level(); if neither is
/// set, of all levels, or the plan that replaces it according to the record of gates. Throws
/// fovea::Error with can_run's reason, and the errors of forced_attention_level().
[[nodiscard]] AttentionChoice choose_attention(const ops::AttentionProblem& problem,
                                               const DeviceInfo& device,
                                               std::optional<AttentionLevel> level,
                                               const GateRecord& record);
/// The same with the device's own record; returns only the plan.
[[nodiscard]] AttentionPlan attention_plan(const ops::AttentionProblem& problem,
                                           const DeviceInfo& device,
                                           std::optional<AttentionLevel> level = std::nullopt);

/// Returns the launch of a plan, with kernel images for the architecture of `device`.
[[nodiscard]] Launch attention_launch(Device& device, const ops::AttentionProblem& problem,
                                      const ops::AttentionOperands& operands,
                                      const AttentionPlan& plan);

}  // namespace fovea::gpu
