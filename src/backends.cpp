// The composition root: turns device names into backends.
#include "backends.hpp"

#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "core/device_name.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/isa.hpp"
#include "gpu/device/device.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "gpu/gpu_backend.hpp"
#include "search/gpu/gpu_scanner.hpp"

namespace fovea {
namespace {

/// The number in the text, when all of it is a number that is not negative.
std::optional<int> whole_number(std::string_view text) {
  const std::optional<int> number = parse_number<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

DeviceName named(const std::string& device) {
  const std::optional<DeviceName> name = parse_device(device);
  if (!name) {
    fail("unknown device '{}'; use {}", device, kDeviceNames);
  }
  return *name;
}

/// A GPU, or the emulator of one, whose order of turns the variable FOVEA_EMU_SEED chooses.
std::unique_ptr<gpu::Device> open_device(const DeviceName& name) {
  if (name.kind != DeviceKind::kEmulator) {
    return gpu::open_cuda_device(name.number);
  }
  gpu::EmuOptions asked{.arch = name.number};
  if (const char* seed = std::getenv("FOVEA_EMU_SEED"); seed != nullptr) {
    const std::optional<int> number = whole_number(seed);
    if (!number) {
      fail("FOVEA_EMU_SEED is '{}'; expected a whole number", seed);
    }
    asked.seed = static_cast<std::uint64_t>(*number);
  }
  return gpu::open_emulated_device(asked);
}

/// Reads the variables for measurements: how many images go through the network together, and
/// whether operators are timed one by one.
gpu::GpuOptions gpu_options(const EncoderOptions& options) {
  gpu::GpuOptions asked{.precision = options.precision, .threads = options.threads};
  if (const char* slice = std::getenv("FOVEA_GPU_SLICE"); slice != nullptr) {
    const std::optional<int> images = whole_number(slice);
    if (!images) {
      fail("FOVEA_GPU_SLICE is '{}'; expected a number of images, or 0 for the default", slice);
    }
    asked.slice_images = *images;
  }
  const char* const profile = std::getenv("FOVEA_GPU_PROFILE");
  asked.profile = profile != nullptr && std::string_view(profile) != "0";
  return asked;
}

std::unique_ptr<ops::Backend> make_cpu(const EncoderOptions& options, std::string note = {}) {
  return cpu::make_cpu_backend(
      {.precision = options.precision, .threads = options.threads, .note = std::move(note)});
}

std::shared_ptr<search::RowScanner> open_scanner(const DeviceName& name) {
  std::unique_ptr<gpu::Device> device = open_device(name);
  if (const Support support = gpu::has_kernels_for(device->info()); !support) {
    fail("{}", support.why);
  }
  return search::make_gpu_scanner(std::move(device));
}

/// Describes an unusable GPU too, because the place in the list is the index.
std::string describe_gpu(int index) {
  try {
    const gpu::DeviceInfo info = gpu::open_cuda_device(index)->info();
    return fmt::format("{} (sm_{}, {:.1f} GiB)", info.name, info.arch(),
                       static_cast<double>(info.memory_bytes) / (1 << 30));
  } catch (const Error& error) {
    return fmt::format("cuda:{} is unusable ({})", index, error.what());
  }
}

}  // namespace

std::unique_ptr<ops::Backend> make_backend(const EncoderOptions& options) {
  if (options.threads < 0) {
    fail("invalid thread count {}; use 0 for one per CPU", options.threads);
  }
  gpu::check_forced_kernel();
  const DeviceName name = named(options.device);
  if (name.kind == DeviceKind::kCpu) {
    return make_cpu(options);
  }
  if (name.is_gpu()) {
    const gpu::GpuOptions asked = gpu_options(options);
    return gpu::make_gpu_backend(open_device(name), asked);
  }
  try {
    return gpu::make_gpu_backend(gpu::open_cuda_device(), gpu_options(options));
  } catch (const gpu::NoGpu&) {
    return make_cpu(options);  // the backend's description says what was chosen
  } catch (const Error& error) {
    // The user has a GPU and would be surprised by the speed.
    return make_cpu(options, fmt::format("the GPU is not used: {}", error.what()));
  }
}

search::OtherDevice device_for_search(const std::string& device) {
  const DeviceName name = named(device);
  if (name.kind == DeviceKind::kCpu) {
    return {};
  }
  if (name.is_gpu()) {
    return {.open = [scanner = open_scanner(name)] { return scanner; }, .is_optional = false};
  }
  return {.open = []() -> std::shared_ptr<search::RowScanner> {
            try {
              return open_scanner({DeviceKind::kCuda});
            } catch (const gpu::NoGpu&) {
              return nullptr;
            }
          },
          .is_optional = true};
}

std::string cpu_instruction_set() {
  cpu::limit_isa_from_environment();
  return cpu::isa_name();
}

bool auto_takes_gpu() {
  try {
    return bool(gpu::has_kernels_for(gpu::open_cuda_device()->info()));
  } catch (const Error&) {  // make_backend reports it
    return false;
  }
}

std::vector<std::string> describe_gpus(std::string& why) {
  std::vector<std::string> gpus;
  try {
    const int count = gpu::count_cuda_devices();
    for (int index = 0; index < count; ++index) {
      gpus.push_back(describe_gpu(index));
    }
  } catch (const Error& error) {
    why = error.what();
  }
  return gpus;
}

}  // namespace fovea
