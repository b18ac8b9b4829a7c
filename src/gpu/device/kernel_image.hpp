// The compiled kernels that this program carries, made from kernels/ when it was built.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/support.hpp"
#include "kernels/kernel_list.hpp"

namespace fovea::gpu {

struct DeviceInfo;

/// A part of a text that is compressed with zstd, unless its size is `bytes`; empty if that is 0.
struct PackedPart {
  std::span<const std::byte> packed{};
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// One entry point compiled for one target, with the resources that ptxas reported; those of PTX
/// are unknown and 0.
struct KernelImage {
  KernelId kernel{};
  std::string_view name;    // the entry point's name; followed by a zero byte
  std::string_view source;  // "gemm/sm90_cooperative.cuh"
  int arch = 0;             // 90 for sm_90a
  Code code = Code::kMachine;
  /// The cubin or PTX of its compilation unit, which may contain other kernels as well. Compressed
  /// with zstd, unless its size is `unpacked_bytes`.
  std::span<const std::byte> packed;
  std::size_t unpacked_bytes = 0;
  /// The PTX from which ptxas compiled the machine code, with line numbers of the sources; empty if
  /// that PTX is itself an image.
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

/// Returns the kernels in machine code: the product's, and those of add_kernel_images.
[[nodiscard]] std::span<const KernelImage> kernel_images();
/// Returns the kernels in PTX.
[[nodiscard]] std::span<const KernelImage> ptx_images();
/// Adds kernels of the laboratory, which the product does not contain. Must be called before any
/// thread looks for kernels.
void add_kernel_images(std::span<const KernelImage> images);

/// Returns all kernels, by KernelId: those of kernels/variants.py, and those of add_kernel().
[[nodiscard]] std::span<const KernelInfo> kernels();
/// Adds a kernel that was compiled at run time, and returns its number. Its texts must outlive the
/// program. Invalidates references that kernels() and info_of() have returned; must be called
/// before any thread looks for kernels. Throws fovea::Error if there is a kernel of this name.
KernelId add_kernel(const KernelInfo& info);
[[nodiscard]] const KernelInfo& info_of(KernelId kernel);
/// Returns the kernel of this name, if there is one.
[[nodiscard]] std::optional<KernelId> find_kernel(std::string_view name);

/// Whether code for this target runs on devices of this architecture: machine code within its
/// generation, PTX on all later architectures.
[[nodiscard]] bool runs_on(const Target& target, int arch);

/// Whether one of the targets that kernels/variants.py lists for the kernel runs on devices of this
/// architecture.
[[nodiscard]] bool is_built_for(KernelId kernel, int arch);
/// The same for a device; otherwise says that there is no kernel.
[[nodiscard]] Support has_kernel(KernelId kernel, const DeviceInfo& device);

/// Returns the kernel's image for devices of this architecture: machine code if there is any, else
/// PTX, else null.
[[nodiscard]] const KernelImage* find_kernel_image(KernelId kernel, int arch);
/// The same for the kernel of this name; null if there is none.
[[nodiscard]] const KernelImage* find_kernel_image(std::string_view name, int arch);

/// Returns the cubin or PTX that contains the kernel, in the form that Device::load takes.
[[nodiscard]] std::vector<std::byte> unpack(const KernelImage& image);
/// Returns the PTX from which the machine code was compiled, or the image itself if it is PTX.
/// Throws fovea::Error for machine code that was compiled at run time without any.
[[nodiscard]] std::string kernel_ptx(const KernelImage& image);
/// Decompresses a text that was compressed with zstd.
[[nodiscard]] std::string unpack_text(std::span<const std::byte> packed);

}  // namespace fovea::gpu
