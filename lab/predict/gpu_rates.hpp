// Peak rates of GPUs, and the energy of their operations.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/device.hpp"

namespace fovea::lab {

/// Peak rates of a GPU. Rates of one SM are per clock cycle, rates of the whole GPU per second.
struct GpuRates {
  std::string_view name;   // name for --gpu: "h200"
  std::string_view words;  // "NVIDIA H200"
  int arch = 0;            // compute capability times ten
  int sms = 0;
  double max_clock = 0;    // maximal clock of the SMs in Hz
  double max_watts = 0;    // power limit
  double short_watts = 0;  // average power in runs of milliseconds, which may exceed the limit

  double dram_bytes = 0;       // published bandwidth of device memory
  double l2_bytes = 0;         // bandwidth between an SM and L2
  double l2_dram_bytes = 0;    // bandwidth per SM between L2 and device memory
  double narrow_products = 0;  // multiply-adds with one-byte operands
  double wide_products = 0;    // multiply-adds with two-byte operands
  double warp_products = 0;    // multiply-adds with two-byte operands by mma.sync

  double idle_watts = 0;
  // Energies in joules at the maximal clock.
  double of_wide_product = 0;
  double of_e4m3_product = 0;
  double of_int8_product = 0;
  double of_instruction = 0;  // per warp instruction
  double of_shared_pass = 0;  // per access to 128 bytes of shared memory
  double of_dram_byte = 0;    // the same at any clock

  std::string_view sources;  // origin of the figures
};

[[nodiscard]] std::span<const GpuRates> gpu_rates();
/// Returns the rates of a GPU. Throws fovea::Error, which lists the known names, if the name is
/// unknown.
[[nodiscard]] const GpuRates& find_gpu_rates(std::string_view name);
[[nodiscard]] std::vector<std::string> gpu_rate_names();

/// Returns the properties of the GPU from which launchers choose kernels.
[[nodiscard]] gpu::DeviceInfo gpu_device_info(const GpuRates& rates);

}  // namespace fovea::lab
