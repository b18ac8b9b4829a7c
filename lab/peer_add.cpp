// The grid of the laboratory's addition: as many CTAs as the device holds at once.
#include "lab/peer_add.hpp"

#include "kernels/lab/peer_params.hpp"

namespace fovea::lab {
namespace {

std::uint32_t chunks(std::int64_t elements) {
  return static_cast<std::uint32_t>(elements / peer::kElements);
}

}  // namespace

gpu::Launch add_launch(const gpu::DeviceInfo& device, gpu::DevicePtr y, gpu::DevicePtr addend,
                       gpu::DevicePtr output, std::int64_t count, std::int64_t period) {
  constexpr int kBlocksPerSm = 8;  // 2,048 threads, all that an SM holds
  gpu::Launch launch;
  launch.kernel = gpu::KernelId::peer_add;
  launch.config.grid.x = static_cast<std::uint32_t>(device.sm_count * kBlocksPerSm);
  launch.config.block.x = peer::kThreads;
  launch.params = gpu::to_bytes(peer::AddParams{.y = pointer<const void>(y),
                                                .addend = pointer<const void>(addend),
                                                .output = pointer<void>(output),
                                                .chunks = chunks(count),
                                                .period = chunks(period)});
  return launch;
}

}  // namespace fovea::lab
