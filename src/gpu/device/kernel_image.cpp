// Which of the embedded kernels runs on which device, and its machine code.
#include "gpu/device/kernel_image.hpp"

#include <algorithm>
#include <utility>

#include <zstd.h>

#include "core/error.hpp"

namespace fovea::gpu {
namespace {

std::vector<KernelImage>& all_images() {
  static std::vector<KernelImage> images = product_kernel_images();
  return images;
}

}  // namespace

std::span<const KernelImage> kernel_images() {
  return all_images();
}

void add_kernel_images(std::span<const KernelImage> images) {
  std::vector<KernelImage>& all = all_images();
  all.insert(all.end(), images.begin(), images.end());
  std::ranges::sort(all, {},
                    [](const KernelImage& image) { return std::pair(image.kernel, image.arch); });
}

bool runs_on(int image_arch, int arch) {
  // What is built for 90 and 100 is of their "a" architectures.
  const bool alone = image_arch == 90 || image_arch == 100;
  return image_arch == arch || (!alone && image_arch / 10 == arch / 10 && image_arch < arch);
}

bool is_built_for(KernelId kernel, int arch) {
  return std::ranges::any_of(info_of(kernel).archs,
                             [=](int built) { return built > 0 && runs_on(built, arch); });
}

const KernelImage* find_kernel_image(KernelId kernel, int arch) {
  const KernelImage* best = nullptr;
  for (const KernelImage& image :
       std::ranges::equal_range(all_images(), kernel, {}, &KernelImage::kernel)) {
    if (runs_on(image.arch, arch) && (best == nullptr || image.arch > best->arch)) {
      best = &image;
    }
  }
  return best;
}

const KernelImage* find_kernel_image(std::string_view name, int arch) {
  const auto found = std::ranges::find(kKernels, name, &KernelInfo::name);
  return found == kKernels.end()
             ? nullptr
             : find_kernel_image(static_cast<KernelId>(found - kKernels.begin()), arch);
}

std::vector<std::byte> unpack(const KernelImage& image) {
  std::vector<std::byte> cubin(image.unpacked_bytes);
  const std::size_t size =
      ZSTD_decompress(cubin.data(), cubin.size(), image.packed.data(), image.packed.size());
  if (ZSTD_isError(size) != 0 || size != cubin.size()) {
    fail("the machine code of {} is damaged: install the program again", image.name);
  }
  return cubin;
}

}  // namespace fovea::gpu
