// The compiled kernels that this program carries, made from kernels/ when it was built.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace fovea::gpu {

/// One entry point compiled for one architecture, and what ptxas said about it.
struct KernelImage {
  std::string_view name;    // also of the entry point
  std::string_view source;  // "gemm/sm90_streamed.cu"
  int arch = 0;             // 90 for sm_90a
  std::span<const std::byte> cubin;
  std::span<const std::byte> ptx;  // text; the last byte is zero
  int registers = 0;               // a thread, at launch
  int shared_bytes = 0;            // static, a block
  int stack_bytes = 0;             // a thread
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
};

/// All of them; empty when the program was built without the CUDA compiler.
[[nodiscard]] std::span<const KernelImage> kernel_images();

/// Whether its machine code runs on devices of this architecture (90 for compute capability 9.0):
/// that of its own, and later minor revisions of it, except when it is for one alone (sm_90a).
[[nodiscard]] bool runs_on(const KernelImage& image, int arch);

/// The kernel of this name that runs on devices of this architecture, or null.
[[nodiscard]] const KernelImage* find_kernel_image(std::string_view name, int arch);

}  // namespace fovea::gpu
