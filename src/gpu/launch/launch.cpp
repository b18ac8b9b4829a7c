// KernelCache: finds the code of a kernel for the device, and loads it once.
#include "gpu/launch/launch.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/archs.hpp"

namespace fovea::gpu {
LaunchConfig resident_grid(std::int64_t work, std::int64_t each, std::uint32_t threads,
                           std::int64_t blocks_per_sm, const DeviceInfo& device) {
  const std::int64_t blocks = std::min(divide_up(work, each), device.sm_count * blocks_per_sm);
  return {.grid = {.x = static_cast<std::uint32_t>(blocks)},
          .block = {.x = threads},
          .dependent = true};
}

void KernelCache::run(const Launch& launch, Stream& stream) {
  const Loaded loaded = load(launch.kernel);
  LaunchConfig config = launch.config;
  // Code for other architectures does not wait for the previous grid (kernels/pipe/grid.cuh).
  config.dependent = config.dependent && arch_up_to(loaded.arch, kArchs).overlaps;
  device_.launch(loaded.kernel, config, launch.params, stream);
}

Module KernelCache::load_code(const KernelImage& image) {
  if (device_.info().is_emulated) {
    const std::string ptx = kernel_ptx(image);
    return device_.load(std::as_bytes(std::span(ptx)));
  }
  return device_.load(unpack(image));
}

KernelCache::Loaded KernelCache::load(KernelId kernel) {
  const std::lock_guard lock(mutex_);
  if (const auto found = kernels_.find(kernel); found != kernels_.end()) {
    return found->second;
  }
  const DeviceInfo& info = device_.info();
  const auto other = std::ranges::find(replacements_, kernel, &KernelImage::kernel);
  const KernelImage* const image =
      other != replacements_.end() ? *other : find_kernel_image(kernel, info.arch());
  if (image == nullptr) {
    fail("kernel {} is not built for {} (sm_{})", info_of(kernel).name, info.name, info.arch());
  }
  auto module = modules_.find(image->packed.data());
  if (module == modules_.end()) {
    module = modules_.emplace(image->packed.data(), load_code(*image)).first;
  }
  const Loaded loaded{.kernel = device_.find(module->second, image->name), .arch = image->arch};
  kernels_.emplace(kernel, loaded);
  return loaded;
}

}  // namespace fovea::gpu
