// The compiled kernels that this program carries, made from kernels/ when it was built.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/support.hpp"
#include "kernels/kernel_list.hpp"

namespace fovea::gpu {

struct DeviceInfo;

/// A part of a text that is compressed with zstd; nothing: 0 bytes.
struct PackedPart {
  std::span<const std::byte> packed{};
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// One entry point compiled to one target, and what ptxas said about it: nothing of PTX.
struct KernelImage {
  KernelId kernel{};
  std::string_view name;    // of the entry point; ends in a zero byte
  std::string_view source;  // "gemm/sm90_cooperative.cuh"
  int arch = 0;             // 90 for sm_90a
  Code code = Code::kMachine;
  /// The cubin or the PTX that has it, and others of its unit, compressed with zstd; as it is when
  /// it is as large as `unpacked_bytes`.
  std::span<const std::byte> packed;
  std::size_t unpacked_bytes = 0;
  /// The PTX that ptxas made the machine code of, with the lines of its sources; nothing where that
  /// is the PTX that is an image itself.
  PackedPart ptx{};
  int registers = 0;     // per thread, at launch
  int shared_bytes = 0;  // static, per CTA
  int stack_bytes = 0;   // per thread
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
};

/// Kernels of the product, machine code and PTX, by kernel and then by architecture; empty when the
/// program was built without the CUDA compiler. Generated.
[[nodiscard]] std::vector<KernelImage> product_kernel_images();

/// The machine code: the product's, and what was added.
[[nodiscard]] std::span<const KernelImage> kernel_images();
/// The PTX.
[[nodiscard]] std::span<const KernelImage> ptx_images();
/// Adds kernels of the laboratory, which the product does not carry. To be called before any thread
/// looks for kernels.
void add_kernel_images(std::span<const KernelImage> images);

[[nodiscard]] constexpr const KernelInfo& info_of(KernelId kernel) {
  return kKernels[static_cast<std::size_t>(kernel)];
}

/// Whether code for this target runs on devices of this architecture: machine code within its
/// generation, PTX on all that came later.
[[nodiscard]] bool runs_on(const Target& target, int arch);

/// Whether kernels/variants.py has it compiled to what runs on devices of this architecture.
[[nodiscard]] bool is_built_for(KernelId kernel, int arch);
/// The same of the architecture of a device.
[[nodiscard]] Support has_kernel(KernelId kernel, const DeviceInfo& device);

/// The image of the kernel for devices of this architecture: machine code where there is some, else
/// PTX, else null.
[[nodiscard]] const KernelImage* find_kernel_image(KernelId kernel, int arch);
/// The same, by the kernel's name.
[[nodiscard]] const KernelImage* find_kernel_image(std::string_view name, int arch);

/// The cubin or PTX that has the kernel, as Device::load takes it.
[[nodiscard]] std::vector<std::byte> unpack(const KernelImage& image);
/// The PTX that ptxas made the machine code of, or that the image is. Throws fovea::Error for
/// machine code that was compiled at run time.
[[nodiscard]] std::string ptx_of(const KernelImage& image);
/// A text that was compressed with zstd.
[[nodiscard]] std::string unpack_text(std::span<const std::byte> packed);

}  // namespace fovea::gpu
