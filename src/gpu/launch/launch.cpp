// KernelCache: finds a kernel's machine code for the device at hand and loads it once.
#include "gpu/launch/launch.hpp"

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"

namespace fovea::gpu {

Kernel KernelCache::get(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = kernels_.find(name); found != kernels_.end()) {
    return found->second;
  }
  const DeviceInfo& info = device_.info();
  const KernelImage* const image = find_kernel_image(name, info.arch());
  if (image == nullptr) {
    fail("kernel {} is not built for {} (sm_{})", name, info.name, info.arch());
  }
  const Kernel kernel = device_.load(image->cubin, name);
  kernels_.emplace(name, kernel);
  return kernel;
}

}  // namespace fovea::gpu
