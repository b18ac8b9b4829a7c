// Linear layers on a GPU.
#include "core/error.hpp"
#include "gpu/caller_stream.hpp"
#include "gpu/gpu_executor.hpp"
#include "gpu/gpu_weights.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/norm.hpp"
#include "ops/linear/op.hpp"

namespace fovea::ops {

void run(const LinearCall& call, gpu::GpuExecutor& executor) {
  const LinearProblem& problem = call.problem;
  const auto& layer = gpu::uploaded<gpu::DeviceLinear>(call.weights);
  if (problem.norm == (layer.column_sum.bytes() == 0)) {
    fail("{}: its weights were prepared {} a norm", to_string(problem),
         problem.norm ? "without" : "with");
  }
  if (layer.type != gpu::weight_type(problem.input)) {
    fail("{}: its weights were prepared as {}", to_string(problem), to_string(layer.type));
  }
  constexpr std::size_t kRowNorm = 2 * sizeof(float);
  if (!executor.take_scratch(problem.norm ? static_cast<std::size_t>(problem.rows) * kRowNorm
                                          : 0)) {
    return;
  }
  const Address input = address_of(call.input.data);
  if (problem.norm) {
    executor.launch(row_norm_launch(
        executor.device(),
        {.rows = problem.rows, .width = problem.in, .eps = problem.eps, .input = problem.input},
        {.input = input, .norms = executor.scratch()}));
    executor.done(Place::kLayerNorm);
  }
  executor.gemm(gpu::gemm_problem(problem),
                {.a = input,
                 .b = layer.weight.address(),
                 .output = address_of(call.output.data),
                 .bias = layer.bias.address(),
                 .column_scale = layer.column_scale.address(),
                 .row_scale = address_of(call.row_scales.data),
                 .row_norm = executor.scratch(),
                 .column_sum = layer.column_sum.address(),
                 .output_scale = layer.output.scale,
                 .a_scales = gpu::block_scales(call.input),
                 .b_scales = layer.block_scales.address(),
                 .output_scales = gpu::block_scales(call.output)},
                layer);
}

PreparedPtr prepare(const LinearWeights& weights, gpu::Uploader& uploader) {
  return gpu::on_device(upload(uploader, gpu::pack_linear(weights)));
}

Support can_run(const LinearProblem& problem, const gpu::Device& device) {
  return gpu::can_run(problem, device.info());
}

void run(const LinearProblem& problem, const LinearOperands& operands, gpu::CallerStream& stream) {
  stream.gemm(gpu::gemm_problem(problem),
              {.a = operands.input,
               .b = operands.weight,
               .output = operands.output,
               .bias = operands.bias != 0 ? operands.bias : stream.zeros(problem.out)});
}

}  // namespace fovea::ops
