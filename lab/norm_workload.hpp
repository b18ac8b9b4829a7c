// LayerNorm as a workload: drawn rows, the exact result, and mistakes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/launch/norm.hpp"
#include "lab/workload.hpp"

namespace fovea::lab {

class NormWorkload final : public Workload {
 public:
  NormWorkload(const gpu::LayerNormProblem& problem, std::uint64_t seed);

  [[nodiscard]] std::string describe() const override { return gpu::to_string(problem_); }
  [[nodiscard]] std::span<const Tensor> inputs() const override { return inputs_; }
  [[nodiscard]] OutputSpec output() const override;
  [[nodiscard]] std::string can_run(const gpu::DeviceInfo& device) const override;
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  std::string_view plan) const override;
  void reference(const Tile& tile, std::span<double> values) const override;
  void framework(const Tile& tile, std::span<double> values) const override;
  [[nodiscard]] std::vector<Mutant> mutants() const override;
  [[nodiscard]] double flops() const override;
  [[nodiscard]] double bytes() const override;
  [[nodiscard]] DType operand_type() const override { return problem_.input; }

 private:
  /// Of what the kernel computes, as a mistaken kernel would leave it out.
  struct Steps {
    bool mean = true;
    bool eps = true;
  };
  NormWorkload(const gpu::LayerNormProblem& problem, std::vector<Tensor> inputs, Steps steps)
      : problem_(problem), inputs_(std::move(inputs)), steps_(steps) {}
  /// One row of the result, in float64 or as a framework computes it.
  template <typename Number>
  void normalise(std::int64_t row, std::span<Number> values) const;

  gpu::LayerNormProblem problem_;
  std::vector<Tensor> inputs_;  // x, weight, bias
  Steps steps_;
};

}  // namespace fovea::lab
