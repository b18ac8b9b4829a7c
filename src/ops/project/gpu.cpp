// The projection of one token per sequence, on a GPU.
#include "gpu/gpu_executor.hpp"
#include "gpu/gpu_weights.hpp"
#include "gpu/launch/pool.hpp"
#include "ops/project/op.hpp"

namespace fovea::ops {
namespace {

struct DeviceProject {
  gpu::DeviceNorm norm;
  gpu::DeviceLinear linear;  // bf16
};

}  // namespace

void run(const ProjectCall& call, gpu::GpuExecutor& executor) {
  const auto& head = gpu::uploaded<DeviceProject>(call.weights);
  if (!executor.take_scratch(gpu::project_workspace_bytes(call.problem))) {
    return;
  }
  executor.launch(project_launches(executor.device(), call.problem,
                                   {.x = address_of(call.input.data),
                                    .output = address_of(call.output.data),
                                    .workspace = executor.scratch(),
                                    .norm_weight = head.norm.weight.address(),
                                    .norm_bias = head.norm.bias.address(),
                                    .linear = pool_linear(head.linear)}));
}

PreparedPtr prepare(const ProjectWeights& weights, gpu::Uploader& uploader) {
  return gpu::on_device(DeviceProject{.norm = upload(uploader, weights.norm),
                                      .linear = upload_bf16_linear(uploader, weights.linear)});
}

Support can_run(const ProjectProblem& problem, const gpu::Device& device) {
  return gpu::can_run(problem, device.info());
}

}  // namespace fovea::ops
