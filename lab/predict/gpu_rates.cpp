// The table of GPU rates.
#include "lab/predict/gpu_rates.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "kernels/archs.hpp"
#include "lab/evolve/candidate.hpp"

namespace fovea::lab {
namespace {

/// Returns the number of multiply-adds per SM and clock for operands of `bytes` bytes.
constexpr double multiply_adds(int arch, int bytes) {
  return 2.0 / bytes * gpu::find_arch(arch, gpu::kArchs)->wide_products;
}

// The ratios of the energies and the two L2 rates come from Nsight Compute's counters for 25
// kernels on an H200 at its power limit
// (bench/results/nvidia-h200/2026-11-23-5-b644df87dfcd/profiles): a least-squares fit of a constant
// power over all of them, with a residual of 4%. Their absolute values come from the times of long
// runs at 700 W; short runs draw 865 W.
constexpr GpuRates kH200{
    .name = "h200",
    .words = "NVIDIA H200",
    .arch = 90,
    .sms = 132,
    .max_clock = 1.98e9,
    .max_watts = 700,
    .short_watts = 865,
    .dram_bytes = 4.8e12,
    .l2_bytes = 126,
    .l2_dram_bytes = 22,
    .narrow_products = multiply_adds(90, 1),
    .wide_products = multiply_adds(90, 2),
    .warp_products = kMmaSyncRate * multiply_adds(90, 2),
    .idle_watts = 150,
    .of_wide_product = 1.37e-12,
    .of_e4m3_product = 0.77e-12,
    .of_int8_product = 0.47e-12,
    .of_instruction = 0.49e-9,
    .of_shared_pass = 2.17e-9,
    .of_dram_byte = 44e-12,
    .sources =
        "NVIDIA H200 data sheet: 4.8 TB/s, 1,979 dense FP8 TFLOP/s, 700 W; nvidia-smi: 1,980 "
        "MHz; energies and L2: ncu, docs/laboratory.md",
};

constexpr GpuRates h100() {
  GpuRates rates = kH200;
  rates.name = "h100";
  rates.words = "NVIDIA H100 SXM";
  rates.dram_bytes = 3.35e12;
  rates.sources =
      "NVIDIA H100 data sheet: 3.35 TB/s, 1,979 dense FP8 TFLOP/s, 700 W; all else as of "
      "the H200, which has the same die";
  return rates;
}

// This project has not measured a B200. Energies are the H200's times 0.87, with which attention at
// 1,237 bf16 TFLOP/s draws 1,000 W at 1.58 GHz (flashinfer-ai/flashinfer#2899) if everything else
// takes 0.45 of the products' energy, as in our attention on an H200. Each of the two dies is
// assumed to have an L2 with the size and speed of an H200's.
constexpr GpuRates b200() {
  constexpr double kEnergy = 0.87;
  GpuRates rates = kH200;
  rates.name = "b200";
  rates.words = "NVIDIA B200";
  rates.arch = 100;
  rates.sms = 148;
  rates.max_clock = 1.965e9;
  rates.max_watts = 1000;
  rates.short_watts = 1000 * kH200.short_watts / kH200.max_watts;
  rates.dram_bytes = 8e12;
  constexpr double kL2 = 2.0 * kH200.sms / 148;  // two L2 caches, shared by more SMs
  rates.l2_bytes *= kL2;
  rates.l2_dram_bytes *= kL2;
  rates.narrow_products = multiply_adds(100, 1);
  rates.wide_products = multiply_adds(100, 2);
  rates.of_wide_product *= kEnergy;
  rates.of_e4m3_product *= kEnergy;
  rates.of_int8_product *= kEnergy;
  rates.of_instruction *= kEnergy;
  rates.of_shared_pass *= kEnergy;
  rates.of_dram_byte *= kEnergy;
  rates.sources =
      "NVIDIA DGX B200 data sheet: 8 TB/s, 4.5 dense FP8 and INT8 POP/s, 1,000 W; 148 SMs: "
      "chipsandcheese.com, Nvidia's B200; 1,965 MHz and power: flashinfer#2899; mma.sync as "
      "on Hopper, exponentials and shared memory as FlashAttention-4 (arXiv:2603.05451) has "
      "them";
  return rates;
}

constexpr std::array kRates = {kH200, h100(), b200()};

}  // namespace

std::span<const GpuRates> gpu_rates() {
  return kRates;
}

std::vector<std::string> gpu_rate_names() {
  std::vector<std::string> names;
  std::ranges::transform(kRates, std::back_inserter(names),
                         [](const GpuRates& rates) { return std::string(rates.name); });
  return names;
}

const GpuRates& find_gpu_rates(std::string_view name) {
  const auto* const match = std::ranges::find(kRates, name, &GpuRates::name);
  if (match == kRates.end()) {
    fail("unknown GPU '{}'; there are rates for: {}", name, fmt::join(gpu_rate_names(), ", "));
  }
  return *match;
}

gpu::DeviceInfo gpu_device_info(const GpuRates& rates) {
  gpu::DeviceInfo info = assumed_device();
  info.name = rates.words;
  info.compute_major = rates.arch / 10;
  info.compute_minor = rates.arch % 10;
  info.sm_count = rates.sms;
  info.shared_bytes_per_block = gpu::arch_up_to(rates.arch, gpu::kArchs).shared_bytes;
  info.clock_khz = static_cast<int>(rates.max_clock / 1e3);
  return info;
}

}  // namespace fovea::lab
