// LayerNorm on a GPU.
#include "gpu/caller_stream.hpp"
#include "gpu/gpu_executor.hpp"
#include "gpu/gpu_weights.hpp"
#include "gpu/launch/norm.hpp"
#include "ops/layer_norm/op.hpp"

namespace fovea::ops {

void run(const LayerNormCall& call, gpu::GpuExecutor& executor) {
  const auto& norm = gpu::uploaded<gpu::DeviceNorm>(call.weights);
  if (!executor.take_scratch(0)) {
    return;
  }
  executor.launch(layer_norm_launch(executor.device(), call.problem,
                                    {.input = address_of(call.input.data),
                                     .weight = norm.weight.address(),
                                     .bias = norm.bias.address(),
                                     .output = address_of(call.output.data),
                                     .row_scale = address_of(call.row_scales.data),
                                     .block_scales = gpu::block_scales(call.output)}));
}

PreparedPtr prepare(const LayerNormWeights& weights, gpu::Uploader& uploader) {
  return gpu::on_device(upload(uploader, weights));
}

void run(const LayerNormProblem& problem, const LayerNormOperands& operands,
         gpu::CallerStream& stream) {
  stream.launch(layer_norm_launch(stream.device(), problem, operands));
}

}  // namespace fovea::ops
