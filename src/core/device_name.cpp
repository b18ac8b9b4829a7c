// Parses and lists the names of devices.
#include "core/device_name.hpp"

#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/wording.hpp"

namespace fovea {
namespace {

constexpr std::string_view kEmulatorPrefix = "emu:";

}  // namespace

std::optional<DeviceName> parse_device(std::string_view name, gpu::Archs archs) {
  constexpr std::string_view kCudaPrefix = "cuda:";
  for (const auto& [word, kind] : {std::pair{"auto", DeviceKind::kAuto},
                                   {"cpu", DeviceKind::kCpu},
                                   {"cuda", DeviceKind::kCuda}}) {
    if (name == word) {
      return DeviceName{kind};
    }
  }
  if (name == "emu") {
    return DeviceName{DeviceKind::kEmulator, gpu::kDefaultArch};
  }
  for (const gpu::Arch& arch : archs) {
    if (!arch.target.empty() && name.starts_with(kEmulatorPrefix) &&
        name.substr(kEmulatorPrefix.size()) == arch.target) {
      return DeviceName{DeviceKind::kEmulator, arch.number};
    }
  }
  if (!name.starts_with(kCudaPrefix)) {
    return std::nullopt;
  }
  const std::optional<int> number = parse_number<int>(name.substr(kCudaPrefix.size()));
  if (!number || *number < 0) {
    return std::nullopt;
  }
  return DeviceName{DeviceKind::kCuda, *number};
}

std::vector<std::string> emulated_targets(gpu::Archs archs) {
  std::vector<std::string> targets;
  for (const gpu::Arch& arch : archs) {
    if (!arch.target.empty()) {
      targets.emplace_back(arch.target);
    }
  }
  return targets;
}

std::vector<std::string> emulator_names(gpu::Archs archs) {
  std::vector<std::string> names = {"emu"};
  for (const std::string& target : emulated_targets(archs)) {
    names.push_back(std::string(kEmulatorPrefix) + target);
  }
  return names;
}

std::string emulator_words(gpu::Archs archs) {
  return fmt::format("the emulator of an {}, or of ARCH, {}",
                     gpu::find_arch(gpu::kDefaultArch, archs)->target,
                     listed(emulated_targets(archs), "or"));
}

std::string emulator_name(int arch, gpu::Archs archs) {
  const gpu::Arch* const row = gpu::find_arch(arch, archs);
  if (row == nullptr || row->target.empty()) {
    fail("the emulator has no sm_{}; there are {}", arch, listed(emulated_targets(archs), "and"));
  }
  return std::string(kEmulatorPrefix) + std::string(row->target);
}

}  // namespace fovea
