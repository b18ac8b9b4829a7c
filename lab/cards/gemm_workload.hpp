// GEMM as a workload: drawn operands, the exact result, mistakes, and cuBLASLt beside it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/launch/gemm.hpp"
#include "lab/cards/block_rounding.hpp"
#include "lab/cards/operator_workload.hpp"

namespace fovea::lab {

/// The tensors of a problem; those that it does not have are empty.
struct GemmTensors {
  Tensor a, b, bias, column_scale, row_scale, row_norm, column_sum, position;
  Tensor a_scales, b_scales;  // of blocks: the bytes of the atoms, which lie in rows of one each
  Tensor residual;
};

class GemmWorkload final : public OperatorWorkload<GemmWorkload, gpu::GemmProblem> {
 public:
  /// Draws inputs such that y is about as wide as 1 and bias, position and residual matter beside
  /// it: GELU is then used around zero, where it bends.
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
  /// Poisons a row of A, or its scale; nothing where integers are made of integers.
  [[nodiscard]] Poisoned poisoned() const override;

  /// The launcher's operands, of these addresses.
  [[nodiscard]] gpu::GemmOperands gemm_operands(const Operands& operands) const;

 private:
  /// A row of A or B, of which MXFP8 has the scales of its blocks.
  void read_row(const Tensor& operand, const Tensor& scales, std::int64_t index,
                std::span<float> row) const;
  /// Mistakes with the scales of blocks, of A and of the result.
  [[nodiscard]] std::vector<Mutant> block_mutants() const;
  /// Sum over k of this tile, accumulated in `Number`.
  template <typename Number>
  [[nodiscard]] std::vector<Number> product(const Tile& tile) const;
  /// The result of this tile, in float64 or as a framework computes it.
  template <typename Number>
  void compute(const Tile& tile, std::span<double> values) const;

  /// A copy in which one of the tensors is another.
  [[nodiscard]] std::shared_ptr<const Workload> with_tensor(Tensor GemmTensors::* which,
                                                            const Tensor& tensor) const;
  /// The tensors that there are become the inputs.
  void gather_inputs();

  GemmTensors tensors_;
  ScaleMistake output_mistake_ = ScaleMistake::kNone;  // of a result in MXFP8
};

}  // namespace fovea::lab
