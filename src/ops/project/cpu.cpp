// The projection of one token per sequence, on the CPU.
#include <memory>

#include "core/error.hpp"
#include "cpu/cpu_executor.hpp"
#include "ops/project/op.hpp"

namespace fovea::ops {
namespace {

struct ProjectParameters : public Prepared {
  std::unique_ptr<cpu::NormParameters> norm;
  std::unique_ptr<cpu::PackedWeights> linear;  // f32; null without a projection
};

}  // namespace

void run(const ProjectCall& call, cpu::CpuExecutor& executor) {
  const ProjectProblem& problem = call.problem;
  const auto& parameters = dynamic_cast<const ProjectParameters&>(call.weights);
  const std::int64_t hidden = problem.hidden;
  if (problem.projected == (parameters.linear == nullptr)) {
    fail("{}: its weights were prepared {} a projection", to_string(problem),
         problem.projected ? "without" : "with");
  }
  float* const normed =
      problem.projected ? executor.scratch(problem.sequences * hidden) : call.output.as<float>();
  executor.norm_rows(*parameters.norm, problem.eps, problem.sequences,
                     call.input.as<float>() + problem.token * hidden, problem.tokens * hidden,
                     normed, hidden);
  if (!problem.projected) {
    return;
  }
  executor.multiply({*parameters.linear,
                     {normed, DType::kF32, hidden, problem.sequences, hidden},
                     Epilogue::kNone,
                     DType::kF32,
                     call.output.data,
                     problem.out});
}

PreparedPtr prepare(const ProjectWeights& weights, const cpu::CpuTypes& /*types*/) {
  auto parameters = std::make_unique<ProjectParameters>();
  parameters->norm = std::make_unique<cpu::NormParameters>(weights.norm);
  if (!weights.linear.weight.empty()) {
    parameters->linear = std::make_unique<cpu::PackedWeights>(weights.linear, DType::kF32);
  }
  return parameters;
}

Support can_run(const ProjectProblem& problem, const cpu::CpuTypes& /*types*/) {
  return valid(problem);
}

}  // namespace fovea::ops
