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

/// What a kernel is made of, from the plainest to the fastest. A level that cannot run a problem
/// leaves it to the next one down.
enum class AttentionLevel : std::uint8_t {
  kScalar,  // sm_80 and later: multiply-adds in f32
  kWmma,    // sm_80 and later: matrix products of 16x16x16
  kMma,     // sm_80 and later: matrix products of 16x8x16, probabilities in registers, tuned
  kWgmma,   // sm_90a: TMA and warpgroups
};

/// Returns the name of a level, such as "mma".
[[nodiscard]] std::string_view to_string(AttentionLevel level);
/// The names of all levels, from the plainest to the fastest.
[[nodiscard]] std::span<const std::string_view> attention_level_names();
/// The level of that name, if there is one.
[[nodiscard]] std::optional<AttentionLevel> parse_attention_level(std::string_view name);
/// The level that the environment variable FOVEA_FORCE_KERNEL names, if it is set. Throws
/// fovea::Error when there is no such level.
[[nodiscard]] std::optional<AttentionLevel> forced_attention_level();

/// The kernel for a problem, by its design; the pointer is never null.
using AttentionPlan = std::variant<
    const AttentionVariant<attention::SinglePassTuning>*,  // sm_90a: one softmax a row
    const AttentionVariant<attention::OnlineTuning>*,      // sm_90a: keys stream through in blocks
    const AttentionVariant<attention::MmaTuning>*,         // mma.sync, tuned
    const AttentionVariant<attention::MmaSmallTuning>*,    // mma.sync in small tiles: level wmma
    const AttentionVariant<attention::ScalarTuning>*>;     // multiply-adds

/// Returns the kernel of a plan for operands of kBF16 or kF16.
[[nodiscard]] KernelId kernel_of(const AttentionPlan& plan, DType type);
/// Returns the name of the kernel, such as "single_pass_d64_k200".
[[nodiscard]] std::string to_string(const AttentionPlan& plan);
[[nodiscard]] AttentionLevel level_of(const AttentionPlan& plan);

/// Returns the resources of a plan's CTAs.
[[nodiscard]] CtaSize cta_size(const AttentionPlan& plan);

/// Whether a kernel can be made with the plan's tuning, and runs on the device: what its design
/// cannot do, or more shared memory or threads than a CTA has.
[[nodiscard]] Support can_be_made(const AttentionPlan& plan, const DeviceInfo& device);

/// Whether a kernel of this program runs the problem on this device: bf16 or f16 operands, head
/// dimensions of 8 to 128 in steps of 8, strides that are multiples of 8.
[[nodiscard]] Support can_run(const ops::AttentionProblem& problem, const DeviceInfo& device);
/// Whether a kernel of this level runs the problem.
[[nodiscard]] Support can_run(const ops::AttentionProblem& problem, const DeviceInfo& device,
                              AttentionLevel level);
/// The plans there are, best first. None when can_run says why not.
[[nodiscard]] std::vector<AttentionPlan> attention_plans(const ops::AttentionProblem& problem,
                                                         const DeviceInfo& device);
struct AttentionChoice {
  AttentionPlan plan;
  /// What to tell the user of a better plan whose level missed a gate; empty otherwise. Says
  /// nothing of sizes.
  std::string notice;
};

/// The plan that runs the problem: the best of `level`; without one, of forced_attention_level();
/// otherwise the best of all, or what the record of gates has in its place. Throws fovea::Error
/// with can_run's reason, or as forced_attention_level() does.
[[nodiscard]] AttentionChoice choose_attention(const ops::AttentionProblem& problem,
                                               const DeviceInfo& device,
                                               std::optional<AttentionLevel> level,
                                               const GateRecord& record);
/// The plan alone, by the device's own record.
[[nodiscard]] AttentionPlan attention_plan(const ops::AttentionProblem& problem,
                                           const DeviceInfo& device,
                                           std::optional<AttentionLevel> level = std::nullopt);

/// The launch that runs it as planned. Kernel images are for the architecture of `device`.
[[nodiscard]] Launch attention_launch(Device& device, const ops::AttentionProblem& problem,
                                      const ops::AttentionOperands& operands,
                                      const AttentionPlan& plan);

}  // namespace fovea::gpu
