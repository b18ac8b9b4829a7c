// The names of devices, as options give them: "cuda:1".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/archs.hpp"

namespace fovea {

enum class DeviceKind : std::uint8_t { kAuto, kCpu, kCuda, kEmulator };

struct DeviceName {
  DeviceKind kind = DeviceKind::kAuto;
  int number = 0;  // of the GPU; of the emulator the architecture, 90 for sm_90a

  /// Whether it computes by the GPU's kernels. What `auto` means the machine decides.
  [[nodiscard]] bool is_gpu() const {
    return kind == DeviceKind::kCuda || kind == DeviceKind::kEmulator;
  }
};

/// Names for messages that refuse one. The emulator's names are for those who work on kernels, and
/// told by the commands that do.
inline constexpr std::string_view kDeviceNames = "auto, cpu, cuda or cuda:N";

/// "cuda" is the first GPU, "emu" the emulator of gpu::kDefaultArch. None: it is no name of a
/// device.
[[nodiscard]] std::optional<DeviceName> parse_device(std::string_view name,
                                                     gpu::Archs archs = gpu::kArchs);
/// "sm_80", "sm_90a" and the like: what ARCH of "emu:ARCH" may be.
[[nodiscard]] std::vector<std::string> emulated_targets(gpu::Archs archs = gpu::kArchs);
/// "emu", "emu:sm_80" and the like.
[[nodiscard]] std::vector<std::string> emulator_names(gpu::Archs archs = gpu::kArchs);
/// Words of the help: "the emulator of an sm_90a, or of ARCH, sm_80, sm_90a or sm_100a".
[[nodiscard]] std::string emulator_words(gpu::Archs archs = gpu::kArchs);
/// "emu:sm_90a" of 90. Throws fovea::Error when there is none of this architecture.
[[nodiscard]] std::string emulator_name(int arch, gpu::Archs archs = gpu::kArchs);

}  // namespace fovea
