// The pooling head on a GPU.
#include <span>
#include <vector>

#include "gpu/gpu_executor.hpp"
#include "gpu/gpu_weights.hpp"
#include "gpu/launch/pool.hpp"
#include "ops/pool/op.hpp"

namespace fovea::ops {
namespace {

struct DevicePool {
  gpu::DeviceBuffer keys;
  gpu::DeviceBuffer key_sums;
  gpu::DeviceNorm norm;
  gpu::DeviceLinear value;
  gpu::DeviceLinear out;
  gpu::DeviceLinear fc1;
  gpu::DeviceLinear fc2;
};

}  // namespace

void run(const PoolCall& call, gpu::GpuExecutor& executor) {
  const auto& head = gpu::uploaded<DevicePool>(call.weights);
  if (!executor.take_scratch(gpu::pool_workspace_bytes(call.problem))) {
    return;
  }
  executor.launch(pool_launches(executor.device(), call.problem,
                                {.x = address_of(call.input.data),
                                 .output = address_of(call.output.data),
                                 .workspace = executor.scratch(),
                                 .starts = call.shapes.starts,
                                 .keys = head.keys.address(),
                                 .key_sums = head.key_sums.address(),
                                 .norm_weight = head.norm.weight.address(),
                                 .norm_bias = head.norm.bias.address(),
                                 .value = pool_linear(head.value),
                                 .out = pool_linear(head.out),
                                 .fc1 = pool_linear(head.fc1),
                                 .fc2 = pool_linear(head.fc2)}));
}

PreparedPtr prepare(const PoolWeights& weights, gpu::Uploader& uploader) {
  const auto linear = [&](const LinearWeights& layer) {
    return upload_bf16_linear(uploader, layer);
  };
  const std::size_t hidden = weights.input_norm.weight.size();
  std::vector<float> keys(weights.key.begin(), weights.key.end());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] *= weights.input_norm.weight[i % hidden];
  }
  const gpu::PackedPoolKeys packed = gpu::pack_pool_keys(keys, weights.value.in);
  LinearWeights value = weights.value;
  value.norm = weights.input_norm;
  return gpu::on_device(DevicePool{.keys = uploader.upload(std::as_bytes(std::span(packed.keys))),
                                   .key_sums = uploader.upload(packed.sums),
                                   .norm = upload(uploader, weights.norm),
                                   .value = linear(value),
                                   .out = linear(weights.out),
                                   .fc1 = linear(weights.fc1),
                                   .fc2 = linear(weights.fc2)});
}

Support can_run(const PoolProblem& problem, const gpu::Device& device) {
  return problem.norm
             ? gpu::can_run(problem, device.info())
             : Support{"the pooling head on a GPU must include the layer norm of its tokens"};
}

}  // namespace fovea::ops
