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
  bool slowed = false;  // throttled by heat or by hardware protection: times are meaningless
  bool power_capped =
      false;  // at its power limit, as full matrix units are: timings are the card's
};

/// Reads the state of one GPU. Without the library or the permission, readings are empty.
class Nvml {
 public:
  /// Selects the GPU by its PCI bus id (DeviceInfo::pci_bus_id), since NVML's indices differ from
  /// CUDA's, which CUDA_VISIBLE_DEVICES changes.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::optional<GpuState> read() const;
  /// "580.159.03"; empty when unknown.
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
