// The projection of one token of each sequence, after a layer norm, to the embedding.
#pragma once

#include "ops/call.hpp"
#include "ops/layer_norm/op.hpp"
#include "ops/linear/op.hpp"

namespace fovea::ops {

/// output = W layer_norm(x[token]) + bias, for one token per sequence. Without `projected` it is
/// layer_norm(x[token]), and `out` equals `hidden`.
///   x [sequences * tokens, hidden], W [out, hidden] -> f32 [sequences, out]
struct ProjectProblem {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;  // tokens per sequence
  std::int64_t token = 0;   // index of the token that is read
  std::int64_t hidden = 0;
  std::int64_t out = 0;
  bool projected = true;
  double eps = 1e-6;
  DType input = DType::kF32;

  [[nodiscard]] std::int64_t rows() const { return sequences * tokens; }

  friend auto operator<=>(const ProjectProblem&, const ProjectProblem&) = default;
};

/// See ProjectProblem.
struct ProjectWeights {
  LayerNormWeights norm;
  LinearWeights linear{};  // empty when the problem is not projected
};

struct ProjectCall {
  ProjectProblem problem;
  const Prepared& weights;
  ConstTensorView input;
  TensorView output;

  [[nodiscard]] static Place place() { return Place::kPool; }
};

[[nodiscard]] std::string to_string(const ProjectProblem& problem);
[[nodiscard]] Support valid(const ProjectProblem& problem);
void check(const ProjectCall& call);
void check_weights(const ProjectWeights& weights);

void run(const ProjectCall& call, cpu::CpuExecutor& executor);
void run(const ProjectCall& call, gpu::GpuExecutor& executor);
void run(const ProjectCall& call, reference::ReferenceExecutor& executor);
[[nodiscard]] PreparedPtr prepare(const ProjectWeights& weights, const cpu::CpuTypes& types);
[[nodiscard]] PreparedPtr prepare(const ProjectWeights& weights, gpu::Uploader& uploader);
void keep(ProjectWeights& weights, reference::Storage& storage);
[[nodiscard]] Support can_run(const ProjectProblem& problem, const cpu::CpuTypes& types);
[[nodiscard]] Support can_run(const ProjectProblem& problem, const gpu::Device& device);

}  // namespace fovea::ops
