// What the emulated device alone has: orders in which its blocks and warps take turns, and
// findings.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fovea_emulator/finding.hpp"
#include "fovea_emulator/trace.hpp"
#include "gpu/device/device.hpp"

namespace fovea::gpu {

/// What the emulator has found wrong with a kernel: the Error that an emulated device throws of it.
class KernelFault : public Error {
 public:
  KernelFault(const std::string& message, std::vector<emu::Finding> findings)
      : Error(message), findings_(std::move(findings)) {}
  [[nodiscard]] const std::vector<emu::Finding>& findings() const { return findings_; }

 private:
  std::vector<emu::Finding> findings_;
};

/// Lets the device's blocks and warps take turns by this seed from its next grid on, as if no grid
/// had run before. `trace`, if there is one, is told of what they do. Throws Error unless the
/// device is an emulated one.
void begin_order(Device& device, std::uint64_t seed, emu::TraceFunction trace = {});

}  // namespace fovea::gpu
