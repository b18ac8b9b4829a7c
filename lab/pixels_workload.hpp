// Pixels to bf16 and the repeated position table, as workloads: exact copies, checked to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/workload.hpp"

namespace fovea::lab {

/// Which kernel, and on what: rows of `width` to rows of `stride`, or `rows` copies of `width`.
struct PixelsProblem {
  bool repeat = false;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;  // of widened rows
};

class PixelsWorkload final : public Workload {
 public:
  PixelsWorkload(const PixelsProblem& problem, std::uint64_t seed);

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::span<const Tensor> inputs() const override { return inputs_; }
  [[nodiscard]] OutputSpec output() const override;
  [[nodiscard]] Support can_run(const gpu::DeviceInfo&) const override { return {}; }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  std::string_view plan) const override;
  void reference(const Tile& tile, std::span<double> values) const override;
  void framework(const Tile& tile, std::span<double> values) const override {
    reference(tile, values);
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override;
  [[nodiscard]] double flops() const override { return 0.0; }
  [[nodiscard]] double bytes() const override;
  [[nodiscard]] DType operand_type() const override { return DType::kBF16; }

 private:
  PixelsWorkload(const PixelsProblem& problem, std::vector<Tensor> inputs, double centre)
      : problem_(problem), inputs_(std::move(inputs)), centre_(centre) {}

  PixelsProblem problem_;
  std::vector<Tensor> inputs_;
  double centre_ = 0.0;  // taken from each pixel
};

}  // namespace fovea::lab
