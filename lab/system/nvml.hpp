// Clocks, power and throttling of a GPU, from NVIDIA's management library (NVML), opened at run
// time.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace fovea::lab {

struct GpuState {
  int sm_mhz = 0;
  double watts = 0.0;
  bool slowed = false;  // whether heat or hardware protection throttles the GPU, so that times are
                        // meaningless
  /// Whether the clocks are lowered to remain within the power limit, as is normal under full load.
  bool power_capped = false;
};

/// Reads the state of a GPU. Readings are empty without the library or the permission.
class Nvml {
 public:
  /// Selects the GPU by its PCI bus id (DeviceInfo::pci_bus_id), since NVML's indices differ from
  /// CUDA's, which depend on CUDA_VISIBLE_DEVICES.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::optional<GpuState> read() const;
  /// Returns the driver's version, such as "580.159.03", or "" if it is unknown.
  [[nodiscard]] std::string driver_version() const;
  /// Returns why readings are unavailable; empty if they are available.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  struct Api;
  std::unique_ptr<Api> api_;
  void* device_ = nullptr;
  std::string missing_;
};

}  // namespace fovea::lab
