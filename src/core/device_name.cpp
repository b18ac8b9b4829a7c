// The names of devices.
#include "core/device_name.hpp"

#include <charconv>
#include <system_error>

namespace fovea {

std::optional<DeviceName> parse_device(std::string_view name) {
  constexpr std::string_view kNumbered = "cuda:";
  if (name == "auto") {
    return DeviceName{DeviceKind::kAuto};
  }
  if (name == "cpu") {
    return DeviceName{DeviceKind::kCpu};
  }
  if (name == "cuda") {
    return DeviceName{DeviceKind::kCuda};
  }
  if (name == "emu" || name == "emu:sm_90a") {
    return DeviceName{DeviceKind::kEmulator, 90};
  }
  if (name == "emu:sm_100a") {
    return DeviceName{DeviceKind::kEmulator, 100};
  }
  if (name == "emu:sm_80") {
    return DeviceName{DeviceKind::kEmulator, 80};
  }
  if (!name.starts_with(kNumbered)) {
    return std::nullopt;
  }
  int number = -1;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + kNumbered.size(), last, number);
  if (error != std::errc{} || end != last || number < 0) {
    return std::nullopt;
  }
  return DeviceName{DeviceKind::kCuda, number};
}

}  // namespace fovea
