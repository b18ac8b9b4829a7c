// Clocks, power and throttling of a GPU, through NVIDIA's management library opened at run time.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace fovea::lab {

struct GpuState {
  int sm_mhz = 0;
  double watts = 0.0;
  bool slowed = false;  // by heat or by the hardware's protection: timings are worthless
  bool power_capped =
      false;  // at its power limit, as full matrix units are: timings are the card's
};

/// Reads the state of one GPU. Without the library or the permission it knows nothing.
class Nvml {
 public:
  /// The GPU at this place on the bus (DeviceInfo::pci_bus_id): indices of this library are not
  /// those of CUDA, which CUDA_VISIBLE_DEVICES changes.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::optional<GpuState> read() const;
  /// "580.159.03"; empty when unknown.
  [[nodiscard]] std::string driver_version() const;
  /// Why nothing is known; empty when something is.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  struct Api;
  std::unique_ptr<Api> api_;
  void* device_ = nullptr;
  std::string missing_;
};

}  // namespace fovea::lab
