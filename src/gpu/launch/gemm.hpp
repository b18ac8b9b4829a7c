// GEMM on a GPU: output = epilogue(A B^T), the problem, the plan and the launch.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/gate_record.hpp"
#include "gpu/launch/launch.hpp"
#include "kernels/gemm/gemm_params.hpp"
#include "ops/linear/op.hpp"
#include "ops/patch_embed/op.hpp"

namespace fovea::gpu {

using GemmDesign = gemm::Design;
using GemmEpilogue = epilogue::Kind;

/// output (M, N) = epilogue(row_scale * column_scale * A (M, K) B (N, K)^T), both K-major; with row
/// norms epilogue(scale * A B^T + shift * column_sum), which is the product of the normalised A.
struct GemmProblem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType a = DType::kBF16;  // kBF16, kE4M3, kMXFP8, kI8, or kU8 with b kI8
  DType b = DType::kBF16;
  DType output = DType::kBF16;  // kBF16, kE4M3, kMXFP8 or kI8
  GemmEpilogue epilogue = GemmEpilogue::kBias;
  bool row_scale = false;   // A has a scale for each row
  bool row_norm = false;    // rows of A are normalised: x * scale + shift
  std::int64_t tokens = 0;  // rows of the position table

  friend auto operator<=>(const GemmProblem&, const GemmProblem&) = default;
};

/// Returns the type of weights for inputs of a type: i8 for i8 and u8, otherwise the same.
[[nodiscard]] DType weight_type(DType input);
/// Whether GPUs run the problem. Products without a kernel run in cuBLASLt, except those with row
/// norms.
[[nodiscard]] Support can_run(const ops::LinearProblem& problem, const DeviceInfo& device);
[[nodiscard]] Support can_run(const ops::PatchEmbedProblem& problem, const DeviceInfo& device);
/// Returns the product of a linear layer.
[[nodiscard]] GemmProblem gemm_problem(const ops::LinearProblem& problem);
/// Returns the product of a patch embedding, for pixels of the problem's input type.
[[nodiscard]] GemmProblem gemm_problem(const ops::PatchEmbedProblem& problem);

/// The operands, aligned to 16 bytes except those with one value per row.
struct GemmOperands {
  DevicePtr a = 0;             // (M, K)
  DevicePtr b = 0;             // (N, K)
  DevicePtr output = 0;        // (M, N); kResidual also reads it
  DevicePtr bias = 0;          // f32 (N); not for kPosition
  DevicePtr column_scale = 0;  // f32 (N), for one-byte types: scale of B's row * scale of A
  DevicePtr row_scale = 0;     // f32 (M), if problem.row_scale
  DevicePtr row_norm = 0;      // f32 (M, 2), scale and shift, if problem.row_norm
  DevicePtr column_sum = 0;    // f32 (N), the sums of B over K, if problem.row_norm
  DevicePtr position = 0;      // bf16 (tokens, N), kPosition
  float output_scale = 1.0F;   // one-byte outputs: result = stored value * output_scale
  // E8M0 block scales of kMXFP8 operands, in atoms (ops/block_scales.hpp).
  DevicePtr a_scales = 0;
  DevicePtr b_scales = 0;
  DevicePtr output_scales = 0;
};

/// Returns "bias", "gelu", "residual" or "position".
[[nodiscard]] std::string_view to_string(GemmEpilogue epilogue);
[[nodiscard]] std::string to_string(const GemmProblem& problem);

/// The kernel for a problem, and its grid.
struct GemmPlan : gemm::Tuning {
  KernelId kernel{};
  bool staging = false;  // ping-pong design: the residual passes through shared memory
  int grid = 0;          // CTAs

  [[nodiscard]] int rows() const;     // of a CTA's tile
  [[nodiscard]] int cluster() const;  // CTAs
  [[nodiscard]] int threads() const;
  [[nodiscard]] std::size_t shared_bytes() const;

  friend bool operator==(const GemmPlan& a, const GemmPlan& b) {
    return a.kernel == b.kernel && a.grid == b.grid;  // the kernel determines the tuning
  }
};

[[nodiscard]] std::string to_string(const GemmPlan& plan);

/// Returns all plans that can run the problem, by expected time; empty when there are none.
[[nodiscard]] std::vector<GemmPlan> gemm_plans(const GemmProblem& problem,
                                               const DeviceInfo& device);

struct GemmChoice {
  GemmPlan plan;
  Support support;
  std::string notice{};  // for the user, if a better plan missed a gate; otherwise empty
};
/// Returns the plan with the lowest expected time, or the plan that replaces it according to the
/// record of gates; or the reason why there is none.
[[nodiscard]] GemmChoice choose_gemm(const GemmProblem& problem, const DeviceInfo& device,
                                     const GateRecord& record);
/// The same with the device's own record.
[[nodiscard]] GemmChoice choose_gemm(const GemmProblem& problem, const DeviceInfo& device);
/// Returns the plan for a kernel compiled with this tuning as `kernel`; or the reason why there is
/// none: limits of its design, or too much shared memory.
[[nodiscard]] GemmChoice tuned_gemm(const GemmProblem& problem, const DeviceInfo& device,
                                    KernelId kernel, const gemm::Tuning& tuning);
/// Whether a kernel of this program runs the problem on this device.
[[nodiscard]] Support can_run(const GemmProblem& problem, const DeviceInfo& device);

/// Returns the launch of a plan. Throws fovea::Error when an operand is null or misaligned. The
/// kernel may read B before earlier kernels in the stream have ended, so weights must be written by
/// copies or by kernels that have ended.
[[nodiscard]] Launch gemm_launch(Device& device, const GemmProblem& problem,
                                 const GemmOperands& operands, const GemmPlan& plan);

/// Returns the launch of choose_gemm's plan. Throws fovea::Error with its reason.
[[nodiscard]] Launch gemm_launch(Device& device, const GemmProblem& problem,
                                 const GemmOperands& operands);

}  // namespace fovea::gpu
