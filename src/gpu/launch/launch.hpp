// Launch: one kernel launch as data, and the cache of loaded kernels that carries it out.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gpu/device/device.hpp"

namespace fovea::gpu {

/// What a launcher decided: which kernel, on which grid, with which parameters.
struct Launch {
  std::string kernel;  // name of a KernelImage
  LaunchConfig config;
  std::vector<std::byte> params;  // the kernel's one Params struct
};

/// The address as a member of Params has it.
template <typename T>
[[nodiscard]] T* pointer(DevicePtr address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// The bytes of a kernel's Params.
template <typename Params>
[[nodiscard]] std::vector<std::byte> to_bytes(const Params& params) {
  static_assert(std::is_trivially_copyable_v<Params>);
  std::vector<std::byte> bytes(sizeof(Params));
  std::memcpy(bytes.data(), &params, sizeof(Params));
  return bytes;
}

/// Loads kernels of this program on first use. Thread-safe.
class KernelCache {
 public:
  explicit KernelCache(Device& device) : device_(device) {}

  /// Throws fovea::Error when the program carries no such kernel for this device.
  [[nodiscard]] Kernel get(std::string_view name);
  void run(const Launch& launch, Stream& stream) {
    device_.launch(get(launch.kernel), launch.config, launch.params, stream);
  }
  [[nodiscard]] Device& device() const { return device_; }

 private:
  Device& device_;
  std::mutex mutex_;
  std::map<std::string, Kernel, std::less<>> kernels_;
};

}  // namespace fovea::gpu
