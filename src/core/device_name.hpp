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
  int number = 0;  // index of the GPU; for the emulator the architecture, 90 for sm_90a

  /// Whether it runs GPU kernels. False for `auto`, whose meaning depends on the machine.
  [[nodiscard]] bool is_gpu() const {
    return kind == DeviceKind::kCuda || kind == DeviceKind::kEmulator;
  }
};

/// Valid device names, as listed in messages about invalid ones. The emulator is for kernel
/// development, so only the commands for kernel development list its names.
inline constexpr std::string_view kDeviceNames = "auto, cpu, cuda or cuda:N";

/// Parses a device name. "cuda" is the first GPU, "emu" the emulator of gpu::kDefaultArch. Returns
/// nothing when it is not the name of a device.
[[nodiscard]] std::optional<DeviceName> parse_device(std::string_view name,
                                                     gpu::Archs archs = gpu::kArchs);
/// The values of ARCH in "emu:ARCH": "sm_80", "sm_90a" and so on.
[[nodiscard]] std::vector<std::string> emulated_targets(gpu::Archs archs = gpu::kArchs);
/// All names of emulators: "emu", "emu:sm_80" and so on.
[[nodiscard]] std::vector<std::string> emulator_names(gpu::Archs archs = gpu::kArchs);
/// Describes the emulators in help texts: "the emulator of an sm_90a, or of ARCH, sm_80, sm_90a or
/// sm_100a".
[[nodiscard]] std::string emulator_words(gpu::Archs archs = gpu::kArchs);
/// Returns "emu:sm_90a" for 90. Throws fovea::Error when there is no emulator of this architecture.
[[nodiscard]] std::string emulator_name(int arch, gpu::Archs archs = gpu::kArchs);

}  // namespace fovea
