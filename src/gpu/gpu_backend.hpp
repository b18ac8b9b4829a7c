// Backend on a GPU: the operators as launches, batches in slices, slices as graphs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/precision.hpp"
#include "gpu/device/device.hpp"
#include "ops/backend.hpp"

namespace fovea::gpu {

struct GpuOptions {
  /// kAuto means bf16.
  Precision precision = Precision::kAuto;
  /// Host threads that prepare weights and fill staging buffers; 0: one for each CPU.
  int threads = 0;
  /// The maximum number of images per slice; 0: chosen automatically.
  std::int64_t slice_images = 0;
  /// Times every operator for Backend::profile(), instead of running whole graphs.
  bool profile = false;
};

/// Throws fovea::Error when the environment forces an unknown kernel. Also called for the CPU,
/// where the error would otherwise go unnoticed.
void check_forced_kernel();

/// Whether this program has kernels for the device.
[[nodiscard]] Support has_kernels_for(const DeviceInfo& device);

/// Creates the backend, which owns the device. Throws fovea::Error when the program has no kernels
/// for the device, or the device does not support the precision.
[[nodiscard]] std::unique_ptr<ops::Backend> make_gpu_backend(std::unique_ptr<Device> device,
                                                             const GpuOptions& options);

/// The sizes of the slices that `images` are cut into, in order: none larger than `largest`, all
/// but the first of several and the last of the same size.
[[nodiscard]] std::vector<std::int64_t> plan_slices(std::int64_t images, std::int64_t largest);

}  // namespace fovea::gpu
