// The compiled kernels that this program carries, made from kernels/ when it was built.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/kernel_list.hpp"

namespace fovea::gpu {

/// One entry point compiled for one architecture, and what ptxas said about it.
struct KernelImage {
  KernelId kernel{};
  std::string_view name;    // of the entry point; ends in a zero byte
  std::string_view source;  // "gemm/sm90_cooperative.cuh"
  int arch = 0;             // 90 for sm_90a
  /// The cubin that has it, and others of its unit, compressed with zstd.
  std::span<const std::byte> packed;
  std::size_t unpacked_bytes = 0;
  int registers = 0;     // per thread, at launch
  int shared_bytes = 0;  // static, per CTA
  int stack_bytes = 0;   // per thread
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
};

/// Those of the product, by kernel and then by architecture; empty when the program was built
/// without the CUDA compiler. Generated.
[[nodiscard]] std::vector<KernelImage> product_kernel_images();

/// The product's, and those that were added.
[[nodiscard]] std::span<const KernelImage> kernel_images();
/// Adds kernels of the laboratory, which the product does not carry. To be called before any thread
/// looks for kernels.
void add_kernel_images(std::span<const KernelImage> images);

[[nodiscard]] constexpr const KernelInfo& info_of(KernelId kernel) {
  return kKernels[static_cast<std::size_t>(kernel)];
}

/// Whether kernels/variants.py has it compiled for devices of this architecture.
[[nodiscard]] bool is_built_for(KernelId kernel, int arch);
/// Whether machine code for `image_arch` (90 for sm_90a) runs on devices of `arch`: code for one
/// architecture alone there, other code on later minor revisions too.
[[nodiscard]] bool runs_on(int image_arch, int arch);

/// The image of the kernel that runs on devices of this architecture, or null.
[[nodiscard]] const KernelImage* find_kernel_image(KernelId kernel, int arch);
/// The same, by the kernel's name.
[[nodiscard]] const KernelImage* find_kernel_image(std::string_view name, int arch);

/// The cubin that has the kernel.
[[nodiscard]] std::vector<std::byte> unpack(const KernelImage& image);

}  // namespace fovea::gpu
