// Functions for emulated devices only: schedules of blocks and warps, and findings.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fovea_emulator/finding.hpp"
#include "fovea_emulator/trace.hpp"
#include "gpu/device/device.hpp"

namespace fovea::gpu {

/// Error with a finding of the emulator, which an emulated device throws for a faulty kernel.
class KernelFault : public Error {
 public:
  KernelFault(const std::string& message, std::vector<emu::Finding> findings)
      : Error(message), findings_(std::move(findings)) {}
  [[nodiscard]] const std::vector<emu::Finding>& findings() const { return findings_; }

 private:
  std::vector<emu::Finding> findings_;
};

/// Sets the seed of the schedule for the device's next grids, as if no grid had run before.
/// `trace`, if not empty, receives the events of their execution. Throws Error unless the device is
/// emulated.
void begin_order(Device& device, std::uint64_t seed, emu::TraceFunction trace = {});

}  // namespace fovea::gpu
