// Backend on a GPU: the operators as launches, batches in slices, slices as graphs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/encoder.hpp"
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

/// Takes the device over. Throws fovea::Error when the program carries no kernels for it or the
/// precision is not to be had on it.
[[nodiscard]] std::unique_ptr<ops::Backend> make_gpu_backend(std::unique_ptr<Device> device,
                                                             const GpuOptions& options);

/// How many slices of how many images; only the last may be smaller.
struct SlicePlan {
  std::int64_t images = 0;
  std::int64_t count = 0;
};

/// Cuts `images` into slices of about the same size, none larger than `most`.
[[nodiscard]] SlicePlan plan_slices(std::int64_t images, std::int64_t most);

}  // namespace fovea::gpu
