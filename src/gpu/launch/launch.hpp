// Launch: one kernel launch as data, and the cache of loaded kernels that carries it out.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/device/device.hpp"
#include "kernels/kernel_list.hpp"

namespace fovea::gpu {

struct KernelImage;

/// A kernel launch: the kernel, its grid and its parameters.
struct Launch {
  KernelId kernel{};
  LaunchConfig config{};
  std::vector<std::byte> params{};  // the kernel's Params struct
};

/// The resources of a CTA, apart from the kernel's static shared memory.
struct CtaSize {
  int threads = 0;
  std::size_t dynamic_shared_bytes = 0;
};

/// Returns a kernel's Params as bytes.
template <typename Params>
[[nodiscard]] std::vector<std::byte> to_bytes(const Params& params) {
  static_assert(std::is_trivially_copyable_v<Params>);
  std::vector<std::byte> bytes(sizeof(Params));
  std::memcpy(bytes.data(), &params, sizeof(Params));
  return bytes;
}

/// Returns a grid for `work` items, `each` per block. It has at most as many blocks as the device
/// can hold at once; these loop over the items. The grid may start before the previous one ends.
[[nodiscard]] LaunchConfig resident_grid(std::int64_t work, std::int64_t each,
                                         std::uint32_t threads, std::int64_t blocks_per_sm,
                                         const DeviceInfo& device);

/// Loads kernels of this program on first use. Thread-safe.
class KernelCache {
 public:
  explicit KernelCache(Device& device) : device_(device) {}
  /// `replacements` are images to use for some kernels; they must outlive the cache.
  KernelCache(Device& device, std::vector<const KernelImage*> replacements)
      : device_(device), replacements_(std::move(replacements)) {}

  /// Throws fovea::Error when the program does not contain the kernel for this device.
  [[nodiscard]] Kernel get(KernelId kernel) { return load(kernel).kernel; }
  /// Lets a dependent grid start early only if its machine code waits for the previous grid, which
  /// code for architectures before sm_90 does not.
  void run(const Launch& launch, Stream& stream);
  [[nodiscard]] Device& device() const { return device_; }

 private:
  struct Loaded {
    Kernel kernel;
    int arch = 0;  // architecture of its code
  };
  Module load_code(const KernelImage& image);
  Loaded load(KernelId kernel);

  Device& device_;
  std::vector<const KernelImage*> replacements_;
  std::mutex mutex_;
  std::map<KernelId, Loaded> kernels_;
  std::map<const std::byte*, Module> modules_;  // by the address of their packed code
};

}  // namespace fovea::gpu
