// GEMM as a workload: random operands, the exact result, mutants, and cuBLASLt for comparison.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/launch/gemm.hpp"
#include "lab/cards/block_rounding.hpp"
#include "lab/cards/operator_workload.hpp"

namespace fovea::lab {

/// The tensors of a problem; unused ones are empty.
struct GemmTensors {
  Tensor a, b, bias, column_scale, row_scale, row_norm, column_sum, position;
  Tensor a_scales, b_scales;  // bytes of the block scales, one atom per row
  Tensor residual;
};

class GemmWorkload final : public OperatorWorkload<GemmWorkload, gpu::GemmProblem> {
 public:
  /// Draws inputs such that y has a standard deviation near 1, so that GELU is evaluated around
  /// zero, where it is nonlinear; bias, position and residual are of comparable size.
  GemmWorkload(const gpu::GemmProblem& problem, std::uint64_t seed);

  [[nodiscard]] OutputSpec output() const override;
  [[nodiscard]] std::vector<Plan> plans(const gpu::DeviceInfo& device) const override;
  [[nodiscard]] gpu::KernelId kernel_of(const gpu::DeviceInfo& device,
                                        const Plan& plan) const override;
  [[nodiscard]] TunedPlan tuned(const gpu::DeviceInfo& device, gpu::KernelId kernel,
                                const ParameterValues& values) const override;
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& plan) const override;
  void reference(const Tile& tile, std::span<double> values) const override;
  void framework(const Tile& tile, std::span<double> values) const override;
  [[nodiscard]] std::vector<Mutant> mutants() const override;
  [[nodiscard]] TorchTask torch_task() const override;
  [[nodiscard]] double flops() const override;
  [[nodiscard]] DType operand_type() const override { return problem_.a; }
  [[nodiscard]] std::vector<Peer> peers(gpu::KernelCache& kernels,
                                        std::vector<std::string>& missing) const override;
  [[nodiscard]] Smoke smoke() const override;
  [[nodiscard]] std::vector<std::size_t> written_just_before() const override;
  /// Puts a NaN into a row of A, or into its scale; returns an empty value for integer results of
  /// integer operands.
  [[nodiscard]] Poisoned poisoned() const override;

  /// Returns the launcher's operands at these addresses.
  [[nodiscard]] gpu::GemmOperands gemm_operands(const Operands& operands) const;

 private:
  /// Reads a row of A or B, multiplied by its block scales for MXFP8.
  void read_row(const Tensor& operand, const Tensor& scales, std::int64_t index,
                std::span<float> row) const;
  /// Returns mutants of the block scales of A and of the result.
  [[nodiscard]] std::vector<Mutant> block_mutants() const;
  /// Computes the sum over k for this tile, accumulated in `Number`.
  template <typename Number>
  [[nodiscard]] std::vector<Number> product(const Tile& tile) const;
  /// Computes this tile of the result, in float64 or as a framework does.
  template <typename Number>
  void compute(const Tile& tile, std::span<double> values) const;

  /// Returns a copy in which one of the tensors is replaced.
  [[nodiscard]] std::shared_ptr<const Workload> with_tensor(Tensor GemmTensors::* which,
                                                            const Tensor& tensor) const;
  /// Sets the list of inputs to all tensors that are not empty.
  void gather_inputs();

  GemmTensors tensors_;
  ScaleMistake output_mistake_ = ScaleMistake::kNone;  // mistake in the scales of an MXFP8 result
};

}  // namespace fovea::lab
