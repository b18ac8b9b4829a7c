// Which of the embedded kernels runs on which device.
#include "gpu/device/kernel_image.hpp"

namespace fovea::gpu {

const KernelImage* find_kernel_image(std::string_view name, int arch) {
  const KernelImage* best = nullptr;
  for (const KernelImage& image : kernel_images()) {
    // Machine code of an "a" architecture (90, 100) runs there alone; other code also on later
    // minor revisions of the same major one. Neither 90 nor 100 has a later minor one to refuse.
    const bool runs = image.arch == arch || (image.arch / 10 == arch / 10 && image.arch < arch &&
                                             image.arch != 90 && image.arch != 100);
    if (image.name == name && runs && (best == nullptr || image.arch > best->arch)) {
      best = &image;
    }
  }
  return best;
}

}  // namespace fovea::gpu
