// Heads that read one token of each sequence: it is normalised, and projected to the embedding.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>

#include "core/address.hpp"
#include "core/dtype.hpp"
#include "core/support.hpp"
#include "core/tensor_view.hpp"
#include "ops/devices.hpp"
#include "ops/layer_norm/op.hpp"
#include "ops/linear/op.hpp"
#include "ops/place.hpp"
#include "ops/weights.hpp"

namespace fovea::ops {

/// output = W layer_norm(x[token]) + bias, of one token per sequence; layer_norm(x[token]) alone
/// when it is not `projected`, and `out` is `hidden`.
///   x [sequences * tokens, hidden], W [out, hidden] -> f32 [sequences, out]
struct ProjectProblem {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;  // of a sequence
  std::int64_t token = 0;   // the one that is read
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
  LinearWeights linear{};  // without numbers when the problem is not projected
};

struct ProjectCall {
  ProjectProblem problem;
  const Prepared& weights;
  ConstTensorView input;
  TensorView output;

  [[nodiscard]] static Place place() { return Place::kPool; }
};

[[nodiscard]] std::string to_string(const ProjectProblem& problem);
/// Whether the problem makes sense on any device.
[[nodiscard]] Support valid(const ProjectProblem& problem);

/// Throws fovea::Error unless the problem makes sense and the operands fit it.
void check(const ProjectCall& call);
/// Throws fovea::Error when a span's length does not fit the shapes.
void check_weights(const ProjectWeights& weights);

// Parts for each device; what they get is checked.
void run(const ProjectCall& call, cpu::CpuExecutor& executor);
void run(const ProjectCall& call, gpu::GpuExecutor& executor);
void run(const ProjectCall& call, reference::ReferenceExecutor& executor);
[[nodiscard]] PreparedPtr prepare(const ProjectWeights& weights, const cpu::CpuTypes& types);
[[nodiscard]] PreparedPtr prepare(const ProjectWeights& weights, gpu::Uploader& uploader);
/// Has the spans point to copies in `storage`.
void keep(ProjectWeights& weights, reference::Storage& storage);
/// Whether a backend of the device runs the problem.
[[nodiscard]] Support can_run(const ProjectProblem& problem, const cpu::CpuTypes& types);
[[nodiscard]] Support can_run(const ProjectProblem& problem, const gpu::Device& device);

}  // namespace fovea::ops
