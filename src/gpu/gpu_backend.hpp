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
  /// kAuto is bf16. Throws for a precision that the device or this program does not have.
  Precision precision = Precision::kAuto;
  /// Host threads that prepare weights and fill staging buffers; 0: one for each CPU.
  int threads = 0;
  /// Most images that go through the network together; 0: as many as pay.
  std::int64_t slice_images = 0;
  /// Times every operator for Backend::profile(), instead of running whole graphs.
  bool profile = false;
};

/// Throws fovea::Error when the environment forces a kernel that there is not: on the CPU, where
/// nothing is forced, it would never be noticed.
void check_forced_kernel();

/// Whether this program has kernels for the device.
[[nodiscard]] Support has_kernels_for(const DeviceInfo& device);

/// Takes the device over. Throws fovea::Error when the program carries no kernels for it or the
/// precision is not to be had on it.
[[nodiscard]] std::unique_ptr<ops::Backend> make_gpu_backend(std::unique_ptr<Device> device,
                                                             const GpuOptions& options);

/// The sizes of the slices that `images` are cut into, in order: none larger than `largest`, all
/// but the first of several and the last of the same size.
[[nodiscard]] std::vector<std::int64_t> plan_slices(std::int64_t images, std::int64_t largest);

}  // namespace fovea::gpu
