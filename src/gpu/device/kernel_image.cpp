// Which of the embedded kernels runs on which device.
#include "gpu/device/kernel_image.hpp"

namespace fovea::gpu {

bool runs_on(const KernelImage& image, int arch) {
  // What is built for 90 and 100 is of their "a" architectures.
  const bool alone = image.arch == 90 || image.arch == 100;
  return image.arch == arch || (!alone && image.arch / 10 == arch / 10 && image.arch < arch);
}

const KernelImage* find_kernel_image(std::string_view name, int arch) {
  const KernelImage* best = nullptr;
  for (const KernelImage& image : kernel_images()) {
    if (image.name == name && runs_on(image, arch) &&
        (best == nullptr || image.arch > best->arch)) {
      best = &image;
    }
  }
  return best;
}

}  // namespace fovea::gpu
