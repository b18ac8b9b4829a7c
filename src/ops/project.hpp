// Heads that read one token of each sequence: it is normalised, and projected to the embedding.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "core/support.hpp"

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

[[nodiscard]] std::string to_string(const ProjectProblem& problem);
/// Whether the problem makes sense on any device.
[[nodiscard]] Support valid(const ProjectProblem& problem);

}  // namespace fovea::ops
