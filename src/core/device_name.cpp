// The names of devices.
#include "core/device_name.hpp"

#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "core/error.hpp"

namespace fovea {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 3> kEmulators = {
    {{80, "emu:sm_80"}, {90, "emu:sm_90a"}, {100, "emu:sm_100a"}}};
constexpr int kDefaultEmulator = 90;

}  // namespace

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
  if (name == "emu") {
    return DeviceName{DeviceKind::kEmulator, kDefaultEmulator};
  }
  for (const auto& [arch, emulator] : kEmulators) {
    if (name == emulator) {
      return DeviceName{DeviceKind::kEmulator, arch};
    }
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

std::string_view emulator_name(int arch) {
  for (const auto& [known_arch, emulator] : kEmulators) {
    if (known_arch == arch) {
      return emulator;
    }
  }
  fail("the emulator has no sm_{}; there are sm_80, sm_90a and sm_100a", arch);
}

}  // namespace fovea
