// Finds the embedded kernel for a device, and unpacks its code.
#include "gpu/device/kernel_image.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <zstd.h>

#include "core/error.hpp"
#include "gpu/device/device.hpp"

namespace fovea::gpu {
namespace {

bool is_ptx(const KernelImage& image) {
  return image.code == Code::kPtx;
}

struct Images {
  std::vector<KernelImage> machine;
  std::vector<KernelImage> ptx;
};

Images& all_images() {
  static Images images = [] {
    Images all{.machine = product_kernel_images(), .ptx = {}};
    std::ranges::copy_if(all.machine, std::back_inserter(all.ptx), is_ptx);
    std::erase_if(all.machine, is_ptx);
    return all;
  }();
  return images;
}

std::vector<KernelInfo>& all_kernels() {
  static std::vector<KernelInfo> all(kKernels.begin(), kKernels.end());
  return all;
}

}  // namespace

std::span<const KernelInfo> kernels() {
  return all_kernels();
}

const KernelInfo& info_of(KernelId kernel) {
  return kernels()[static_cast<std::size_t>(kernel)];
}

std::optional<KernelId> find_kernel(std::string_view name) {
  const auto found = std::ranges::find(kernels(), name, &KernelInfo::name);
  return found == kernels().end() ? std::nullopt
                                  : std::optional(static_cast<KernelId>(found - kernels().begin()));
}

KernelId add_kernel(const KernelInfo& info) {
  if (find_kernel(info.name)) {
    fail("there is a kernel {} already", info.name);
  }
  all_kernels().push_back(info);
  return static_cast<KernelId>(all_kernels().size() - 1);
}

bool runs_on(const Target& target, int arch) {
  switch (target.code) {
    case Code::kOneArch:
      return target.arch == arch;
    case Code::kMachine:
    case Code::kFamily:
      return target.arch / 10 == arch / 10 && target.arch <= arch;
    case Code::kPtx:
      break;
  }
  return target.arch < arch;
}

std::span<const KernelImage> kernel_images() {
  return all_images().machine;
}

std::span<const KernelImage> ptx_images() {
  return all_images().ptx;
}

void add_kernel_images(std::span<const KernelImage> images) {
  std::vector<KernelImage>& all = all_images().machine;
  all.insert(all.end(), images.begin(), images.end());
  std::ranges::sort(all, {},
                    [](const KernelImage& image) { return std::pair(image.kernel, image.arch); });
}

bool is_built_for(KernelId kernel, int arch) {
  return std::ranges::any_of(info_of(kernel).targets, [=](const Target& target) {
    return target.arch > 0 && runs_on(target, arch);
  });
}

Support has_kernel(KernelId kernel, const DeviceInfo& device) {
  return is_built_for(kernel, device.arch())
             ? Support{}
             : Support{fmt::format("no kernel for {} (sm_{})", device.name, device.arch())};
}

const KernelImage* find_kernel_image(KernelId kernel, int arch) {
  for (const auto& images : {kernel_images(), ptx_images()}) {
    const KernelImage* best = nullptr;
    for (const KernelImage& image :
         std::ranges::equal_range(images, kernel, {}, &KernelImage::kernel)) {
      if (runs_on({image.arch, image.code}, arch) && (best == nullptr || image.arch > best->arch)) {
        best = &image;
      }
    }
    if (best != nullptr) {
      return best;
    }
  }
  return nullptr;
}

const KernelImage* find_kernel_image(std::string_view name, int arch) {
  const std::optional<KernelId> kernel = find_kernel(name);
  return kernel ? find_kernel_image(*kernel, arch) : nullptr;
}

std::vector<std::byte> unpack(const KernelImage& image) {
  // The driver takes PTX as text that ends in a zero byte.
  std::vector<std::byte> code(image.unpacked_bytes + (is_ptx(image) ? 1 : 0));
  if (image.packed.size() == image.unpacked_bytes) {
    std::ranges::copy(image.packed, code.begin());
    return code;
  }
  const std::size_t size =
      ZSTD_decompress(code.data(), image.unpacked_bytes, image.packed.data(), image.packed.size());
  if (ZSTD_isError(size) != 0 || size != image.unpacked_bytes) {
    fail("the machine code of {} is damaged: install the program again", image.name);
  }
  return code;
}

std::string kernel_ptx(const KernelImage& image) {
  if (image.ptx.bytes > 0 && image.ptx.packed.size() == image.ptx.bytes) {
    return {reinterpret_cast<const char*>(image.ptx.packed.data()), image.ptx.bytes};
  }
  if (image.ptx.bytes > 0) {
    static std::mutex mutex;
    static std::map<const std::byte*, std::string> texts;  // by their packed data
    const std::lock_guard lock(mutex);
    std::string& text = texts[image.ptx.packed.data()];
    if (text.empty()) {
      text = unpack_text(image.ptx.packed);
    }
    return text.substr(image.ptx.offset, image.ptx.bytes);
  }
  const auto others =
      std::ranges::equal_range(ptx_images(), image.kernel, {}, &KernelImage::kernel);
  if (others.empty()) {
    fail("the program has no PTX of {}, which was compiled at run time", image.name);
  }
  const std::vector<std::byte> code = unpack(is_ptx(image) ? image : others.front());
  return {reinterpret_cast<const char*>(code.data()), code.size() - 1};
}

std::string unpack_text(std::span<const std::byte> packed) {
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  std::string text;
  if (size != ZSTD_CONTENTSIZE_ERROR && size != ZSTD_CONTENTSIZE_UNKNOWN) {
    text.resize(size);
  }
  if (text.empty() ||
      ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size()) != text.size()) {
    fail("a text embedded in this program is damaged: install the program again");
  }
  return text;
}

}  // namespace fovea::gpu
