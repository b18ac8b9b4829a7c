// The pooling head as a workload: drawn tokens and weights, the exact result, and mistakes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/launch/pool.hpp"
#include "lab/operator_workload.hpp"

namespace fovea::lab {

class PoolWorkload final : public OperatorWorkload<ops::PoolProblem> {
 public:
  PoolWorkload(const ops::PoolProblem& problem, std::uint64_t seed);

  [[nodiscard]] OutputSpec output() const override;
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  std::string_view plan) const override;
  [[nodiscard]] std::size_t scratch_bytes(const gpu::DeviceInfo& device) const override;
  void reference(const Tile& tile, std::span<double> values) const override;
  void framework(const Tile& tile, std::span<double> values) const override;
  [[nodiscard]] std::vector<Mutant> mutants() const override;
  [[nodiscard]] double flops() const override;
  [[nodiscard]] DType operand_type() const override { return DType::kBF16; }

 private:
  enum class Defect : std::uint8_t {
    kNone,
    kSkipInputNorm,
    kDropLastToken,
    kDropGelu,
    kSkipResidual
  };
  PoolWorkload(const ops::PoolProblem& problem, std::vector<Tensor> inputs, Tensor keys,
               Defect defect);

  template <typename Number>
  struct Known {
    std::once_flag computed;
    std::vector<Number> embedding;
  };

  /// One image's embedding, in float64 or in f32 with what a framework stores rounded to bf16.
  template <typename Number>
  [[nodiscard]] std::vector<Number> embedding(std::int64_t image) const;
  /// A tile of embeddings; each is computed once, however many tiles ask for it.
  template <typename Number>
  void fill(const Tile& tile, std::span<double> values, std::vector<Known<Number>>& known) const;

  Tensor keys_;  // (heads, hidden), which inputs_ has as the kernel takes them
  Defect defect_ = Defect::kNone;
  mutable std::vector<Known<double>> exact_;  // of each image
  mutable std::vector<Known<float>> rounded_;
};

}  // namespace fovea::lab
