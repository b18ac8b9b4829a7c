// The composition root: device names to backends.
#include "backends.hpp"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "cpu/backend.hpp"
#include "gpu/backend.hpp"
#include "gpu/device/device.hpp"

namespace fovea {
namespace {

/// The number in "cuda" or "cuda:1".
std::optional<int> cuda_index(std::string_view device) {
  constexpr std::string_view kCuda = "cuda";
  if (device == kCuda) {
    return 0;
  }
  if (!device.starts_with("cuda:")) {
    return std::nullopt;
  }
  const std::string_view number = device.substr(kCuda.size() + 1);
  int index = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (error != std::errc{} || end != number.data() + number.size() || index < 0) {
    return std::nullopt;
  }
  return index;
}

/// For measurements: how many images go through the network together, and whether operators are
/// timed one by one.
gpu::GpuOptions gpu_options(const EncoderOptions& options) {
  gpu::GpuOptions asked{.precision = options.precision, .threads = options.threads};
  if (const char* slice = std::getenv("FOVEA_GPU_SLICE"); slice != nullptr) {
    asked.slice_images = std::atoll(slice);
  }
  asked.profile = std::getenv("FOVEA_GPU_PROFILE") != nullptr;
  return asked;
}

std::unique_ptr<ops::Backend> make_cpu(const EncoderOptions& options) {
  return cpu::make_cpu_backend({.precision = options.precision, .threads = options.threads});
}

}  // namespace

std::unique_ptr<ops::Backend> make_backend(const EncoderOptions& options) {
  if (options.threads < 0) {
    fail("{} threads cannot be; 0 takes one for each CPU", options.threads);
  }
  if (options.device == "cpu") {
    return make_cpu(options);
  }
  if (const auto index = cuda_index(options.device)) {
    return gpu::make_gpu_backend(gpu::open_cuda_device(*index), gpu_options(options));
  }
  if (options.device != "auto") {
    fail("device '{}' is unknown; use auto, cpu, cuda or cuda:N", options.device);
  }
  try {
    return gpu::make_gpu_backend(gpu::open_cuda_device(), gpu_options(options));
  } catch (const Error&) {
    return make_cpu(options);  // the backend's description says what was chosen
  }
}

std::vector<std::string> describe_gpus(std::string& why) {
  std::vector<std::string> gpus;
  try {
    for (int index = 0;; ++index) {
      const gpu::DeviceInfo info = gpu::open_cuda_device(index)->info();
      gpus.push_back(fmt::format("{} (sm_{}, {:.1f} GiB)", info.name, info.arch(),
                                 static_cast<double>(info.memory_bytes) / (1 << 30)));
    }
  } catch (const Error& error) {  // also that there is no GPU of this index any more
    why = error.what();
  }
  return gpus;
}

}  // namespace fovea
