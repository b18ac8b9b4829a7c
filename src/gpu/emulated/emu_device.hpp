// Device on the emulator, which runs the kernels' PTX on the CPU: no GPU is needed.
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
  int arch = kDefaultArch;  // of a row of kernels/archs.py that has a target
  std::uint64_t seed = 0;   // of the order in which blocks and warps take turns
  /// Operations of warps after which grids that run together count as ones that never end.
  std::uint64_t max_steps = std::uint64_t{1} << 32;
  /// Each may be empty. What runs in the place of a module's PTX; what is encoded in the place of a
  /// tensor map; who is told of each operation that a warp runs, by its line of the PTX.
  std::function<std::string(std::string_view ptx)> edit_ptx{};
  std::function<void(TensorMapDesc& map)> edit_map{};
  std::function<void(std::string_view kernel, int line)> ran{};
};

/// What the emulated GPU of an architecture says of itself. Throws fovea::Error when there is none.
[[nodiscard]] DeviceInfo emulated_info(int arch, Archs archs = kArchs);

/// Work waits in its stream until somebody needs it: an event or a stream that is waited for,
/// memory that is freed, a copy to memory of the host that is not page-locked. Then grids run one
/// after the other on the thread that waits. What the emulator finds wrong with a kernel is the
/// message of the Error that this call, or a later one, throws; all work that was waiting is
/// dropped then.
///
/// Copies read page-locked memory when they run, as a GPU does, and other memory at once. Streams
/// of others, handles for vendors' libraries, and times in any meaning but those of the host's
/// clock there are none. Throws Error for an architecture that it does not have.
[[nodiscard]] std::unique_ptr<Device> open_emulated_device(const EmuOptions& options = {});

}  // namespace fovea::gpu
