// OperatorWorkload: what the workloads of a launcher's problems have in common.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/workload.hpp"

namespace fovea::lab {

template <typename Problem>
class OperatorWorkload : public Workload {
 public:
  [[nodiscard]] std::string describe() const override { return to_string(problem_); }
  [[nodiscard]] std::span<const Tensor> inputs() const override { return inputs_; }
  [[nodiscard]] Support can_run(const gpu::DeviceInfo& device) const override {
    return gpu::can_run(problem_, device);
  }
  /// Each input read once, and the output written.
  [[nodiscard]] double bytes() const override {
    double sum = static_cast<double>(output().bytes());
    for (const Tensor& input : inputs_) {
      sum += static_cast<double>(input.bytes());
    }
    return sum;
  }

 protected:
  explicit OperatorWorkload(Problem problem, std::vector<Tensor> inputs = {})
      : problem_(std::move(problem)), inputs_(std::move(inputs)) {}

  Problem problem_;
  std::vector<Tensor> inputs_;
};

}  // namespace fovea::lab
