// The table of embedded kernels.
#include "c/status.hpp"
#include "core/error.hpp"
#include "fovea/c/kernels.h"
#include "gpu/device/kernel_image.hpp"

int32_t fovea_kernel_count(void) {
  return static_cast<std::int32_t>(fovea::gpu::kernel_images().size());
}

fovea_status fovea_kernel_get(int32_t index, fovea_kernel* kernel) {
  return fovea::c::guarded([&] {
    fovea::c::require_pointer(kernel, "kernel");
    const auto images = fovea::gpu::kernel_images();
    if (index < 0 || static_cast<std::size_t>(index) >= images.size()) {
      fovea::fail("there is no kernel {}: the library has {}", index, images.size());
    }
    const fovea::gpu::KernelImage& image = images[static_cast<std::size_t>(index)];
    *kernel = {.name = &image.name.front(),  // of a literal in the generated table
               .arch = image.arch,
               .registers = image.registers,
               .shared_bytes = image.shared_bytes,
               .stack_bytes = image.stack_bytes,
               .spill_store_bytes = image.spill_store_bytes,
               .spill_load_bytes = image.spill_load_bytes};
  });
}
