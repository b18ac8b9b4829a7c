// Emulated device: runs the kernels' PTX on the CPU, without a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gpu/device/device.hpp"
#include "kernels/archs.hpp"

namespace fovea::gpu {

struct EmuOptions {
  int arch = kDefaultArch;  // architecture in kernels/archs.py, with a target
  std::uint64_t seed = 0;   // seed of the order in which blocks and warps run
  /// Maximum number of warp operations of grids that run together; beyond it they are reported as
  /// not terminating.
  std::uint64_t max_steps = std::uint64_t{1} << 32;
  /// Hooks, each of which may be empty: replaces a module's PTX; replaces an encoded tensor map;
  /// receives each operation that a warp executes, with its line of the PTX.
  std::function<std::string(std::string_view ptx)> edit_ptx{};
  std::function<void(TensorMapDesc& map)> edit_map{};
  std::function<void(std::string_view kernel, int line)> ran{};
};

/// Describes the emulated GPU of an architecture. Throws fovea::Error if the architecture is not
/// emulated.
[[nodiscard]] DeviceInfo emulated_info(int arch, Archs archs = kArchs);

/// Opens an emulated device. Work is queued until its result is needed: a wait for an event or a
/// stream, a release of memory, or a copy to pageable host memory. Then it runs on
/// the waiting thread. A finding of the emulator becomes the message of the Error that this or a
/// later call throws, and the remaining work is dropped.
///
/// Copies read page-locked memory when they run, as on a GPU, and other host memory at once.
/// Streams of other libraries and native handles are not supported, and event times are those of
/// the host's clock. Throws Error for an architecture that is not emulated.
[[nodiscard]] std::unique_ptr<Device> open_emulated_device(const EmuOptions& options = {});

}  // namespace fovea::gpu
