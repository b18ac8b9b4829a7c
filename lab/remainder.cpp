// Grids of the element-wise kernels: as many blocks as the device holds at once.
#include "lab/remainder.hpp"

#include <string>
#include <utility>

#include "kernels/lab/params.hpp"

namespace fovea::lab {
namespace {

gpu::Launch launch(const gpu::DeviceInfo& device, std::string kernel,
                   const remainder::Params& params) {
  constexpr int kBlocksPerSm = 8;  // 2,048 threads, all that a multiprocessor holds
  gpu::Launch launch;
  launch.kernel = std::move(kernel);
  launch.config.grid.x = static_cast<std::uint32_t>(device.sm_count * kBlocksPerSm);
  launch.config.block.x = remainder::kThreads;
  launch.params = gpu::to_bytes(params);
  return launch;
}

std::uint32_t chunks(std::int64_t elements) {
  return static_cast<std::uint32_t>(elements / remainder::kElements);
}

}  // namespace

gpu::Launch add_launch(const gpu::DeviceInfo& device, gpu::DevicePtr y, gpu::DevicePtr addend,
                       gpu::DevicePtr output, std::int64_t count, std::int64_t period) {
  remainder::Params params;
  params.y = reinterpret_cast<const void*>(y);
  params.addend = reinterpret_cast<const void*>(addend);
  params.output = reinterpret_cast<void*>(output);
  params.chunks = chunks(count);
  params.period = chunks(period);
  return launch(device, "remainder_add", params);
}

gpu::Launch gelu_e4m3_launch(const gpu::DeviceInfo& device, gpu::DevicePtr y, gpu::DevicePtr output,
                             std::int64_t count, float scale) {
  remainder::Params params;
  params.y = reinterpret_cast<const void*>(y);
  params.output = reinterpret_cast<void*>(output);
  params.chunks = chunks(count);
  params.inverse_scale = 1.0F / scale;
  return launch(device, "remainder_gelu_e4m3", params);
}

}  // namespace fovea::lab
