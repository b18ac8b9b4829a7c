// LayerNorm, whole or as the norms of its rows, as workloads: drawn rows, exact results, mistakes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/launch/norm.hpp"
#include "lab/operator_workload.hpp"

namespace fovea::lab {

class NormWorkload final : public OperatorWorkload<ops::LayerNormProblem> {
 public:
  NormWorkload(const ops::LayerNormProblem& problem, std::uint64_t seed);

  [[nodiscard]] OutputSpec output() const override;
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  std::string_view plan) const override;
  void reference(const Tile& tile, std::span<double> values) const override;
  void framework(const Tile& tile, std::span<double> values) const override;
  [[nodiscard]] std::vector<Mutant> mutants() const override;
  [[nodiscard]] double flops() const override;
  [[nodiscard]] DType operand_type() const override { return problem_.input; }
  [[nodiscard]] Poisoned poisoned() const override;

 private:
  /// Of what the kernel computes, as a mistaken kernel would leave it out.
  struct Steps {
    bool mean = true;
    bool eps = true;
  };
  NormWorkload(const ops::LayerNormProblem& problem, std::vector<Tensor> inputs, Steps steps)
      : OperatorWorkload(problem, std::move(inputs)), steps_(steps) {}
  /// One row of the result, in float64 or as a framework computes it.
  template <typename Number>
  void normalise(std::int64_t row, std::span<Number> values) const;

  Steps steps_;
};

/// The output is a row's scale and shift.
class RowNormWorkload final : public OperatorWorkload<gpu::RowNormProblem> {
 public:
  RowNormWorkload(const gpu::RowNormProblem& problem, std::uint64_t seed);

  [[nodiscard]] OutputSpec output() const override;
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  std::string_view plan) const override;
  void reference(const Tile& tile, std::span<double> values) const override;
  void framework(const Tile& tile, std::span<double> values) const override;
  [[nodiscard]] std::vector<Mutant> mutants() const override;
  [[nodiscard]] double flops() const override;
  [[nodiscard]] DType operand_type() const override { return problem_.input; }
  [[nodiscard]] Poisoned poisoned() const override;

 private:
  enum class Mistake : std::uint8_t { kNone, kNoMean, kSampleVariance };
  RowNormWorkload(const gpu::RowNormProblem& problem, Tensor x, Mistake mistake)
      : OperatorWorkload(problem, {std::move(x)}), mistake_(mistake) {}
  [[nodiscard]] const Tensor& x() const { return inputs_.front(); }
  template <typename Number>
  void norms(const Tile& tile, std::span<double> values) const;

  Mistake mistake_ = Mistake::kNone;
};

}  // namespace fovea::lab
