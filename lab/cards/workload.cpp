// Names of plans, and sizes of workloads.
#include "lab/cards/workload.hpp"

namespace fovea::lab {

std::string to_string(const Plan& plan) {
  if (const auto* const gemm = std::get_if<gpu::GemmPlan>(&plan); gemm != nullptr) {
    return gpu::to_string(*gemm);
  }
  const auto* const attention = std::get_if<gpu::AttentionPlan>(&plan);
  return attention == nullptr ? "" : gpu::to_string(*attention);
}

std::size_t Workload::bytes() const {
  std::size_t sum = output().bytes();
  for (const Tensor& input : inputs()) {
    sum += input.bytes();
  }
  return sum;
}

}  // namespace fovea::lab
