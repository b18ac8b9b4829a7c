// What GPUs do at most, and what their work costs in energy.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/device.hpp"

namespace fovea::lab {

/// Rates of an SM are per clock cycle, those of the whole GPU per second.
struct GpuRates {
  std::string_view name;   // "h200": as --gpu takes it
  std::string_view words;  // "NVIDIA H200"
  int arch = 0;            // compute capability, times ten
  int sms = 0;
  double most_clock = 0;   // of the SMs, Hz
  double most_watts = 0;   // the power limit
  double short_watts = 0;  // what it lets pass for the milliseconds of a short run

  double dram_bytes = 0;       // per second, as published
  double l2_bytes = 0;         // of an SM, between it and L2
  double l2_dram_bytes = 0;    // of an SM's share of L2, between that and the memory
  double narrow_products = 0;  // multiply-adds of types of one byte
  double wide_products = 0;    // of two bytes
  double warp_products = 0;    // of two bytes, by mma.sync

  double idle_watts = 0;
  // Joules at the highest clock.
  double of_wide_product = 0;
  double of_e4m3_product = 0;
  double of_int8_product = 0;
  double of_instruction = 0;  // of a warp
  double of_shared_pass = 0;  // 128 bytes
  double of_dram_byte = 0;    // whatever the clock

  std::string_view sources;  // where the figures are from
};

[[nodiscard]] std::span<const GpuRates> gpu_rates();
/// Throws fovea::Error that names those that there are.
[[nodiscard]] const GpuRates& gpu_rates_of(std::string_view name);
[[nodiscard]] std::vector<std::string> gpu_rate_names();

/// The GPU as launchers see it, who plan for it.
[[nodiscard]] gpu::DeviceInfo device_of(const GpuRates& rates);

}  // namespace fovea::lab
