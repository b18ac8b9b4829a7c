// Declares and calls the needed part of NVML's C API.
#include "lab/system/nvml.hpp"

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <dlfcn.h>

namespace fovea::lab {
namespace {

constexpr int kSuccess = 0;
constexpr unsigned kClockSm = 1;
// Bits of NVML's reasons for a lower clock.
constexpr std::uint64_t kPowerCap = 0x4;
// Reasons for throttling: hardware slowdown, heat (by software), heat (by hardware), power brake.
constexpr std::uint64_t kSlowdowns = 0x8 | 0x20 | 0x40 | 0x80;

}  // namespace

struct Nvml::Api {
  int (*init)();
  int (*shutdown)();
  int (*driver_version)(char*, unsigned);
  int (*device)(const char*, void**);
  int (*clock)(void*, unsigned, unsigned*);
  int (*power)(void*, unsigned*);
  int (*reasons)(void*, unsigned long long*);

  /// Returns whether the library has all functions.
  bool bind(void* library) {
    const auto find = [library](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") &&
           find(driver_version, "nvmlSystemGetDriverVersion") &&
           find(device, "nvmlDeviceGetHandleByPciBusId_v2") &&
           find(clock, "nvmlDeviceGetClockInfo") && find(power, "nvmlDeviceGetPowerUsage") &&
           find(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  }
};

Nvml::Nvml(const std::string& pci_bus_id) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  auto api = std::make_unique<Api>();
  if (library == nullptr || !api->bind(library)) {
    missing_ = "clocks and power are unknown: cannot open libnvidia-ml.so.1";
    return;
  }
  if (api->init() != kSuccess) {
    missing_ = "clocks and power are unknown: cannot initialise libnvidia-ml";
    return;
  }
  api_ = std::move(api);
  if (api_->device(pci_bus_id.c_str(), &device_) != kSuccess) {
    missing_ = "clocks and power are unknown: libnvidia-ml does not know the GPU";
    device_ = nullptr;
  }
}

Nvml::~Nvml() {
  if (api_ != nullptr) {
    api_->shutdown();
  }
}

std::optional<GpuState> Nvml::read() const {
  if (device_ == nullptr) {
    return std::nullopt;
  }
  const auto number = [](auto function, auto... arguments) {
    unsigned value = 0;
    return function(arguments..., &value) == kSuccess ? static_cast<int>(value) : 0;
  };
  GpuState state;
  state.sm_mhz = number(api_->clock, device_, kClockSm);
  state.watts = number(api_->power, device_) * 1e-3;
  unsigned long long reasons = 0;
  if (api_->reasons(device_, &reasons) == kSuccess) {
    state.slowed = (reasons & kSlowdowns) != 0;
    state.power_capped = (reasons & kPowerCap) != 0;
  }
  return state;
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};
  if (api_ == nullptr || api_->driver_version(text.data(), text.size()) != kSuccess) {
    return {};
  }
  return text.data();
}

}  // namespace fovea::lab
