// Fuzzes PTX: any text must be rejected with emu::Error, or its kernels run until they end or
// violate a rule of the emulator.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "fovea_emulator/device.hpp"
#include "fovea_emulator/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMaxModule = std::size_t{64} << 20U;
  constexpr std::size_t kMaxRun = std::size_t{128} << 20U;
  constexpr std::size_t kBufferBytes = 4096;
  emu::Device device;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::vector<emu::KernelHandle> kernels = device.load(text, kMaxModule);
    const std::uint64_t buffer = device.allocate(kBufferBytes);
    device.write(buffer, std::vector<std::byte>(kBufferBytes / 2));
    std::vector<emu::Launch> launches;
    for (const emu::KernelHandle& kernel : kernels) {
      emu::Launch launch{.kernel = kernel,
                         .config = {.grid = {4, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}}};
      for (const emu::Parameter& parameter : kernel.parameters) {
        launch.parameters.resize(parameter.offset + parameter.bytes);
        if (parameter.bytes == sizeof(buffer)) {
          std::memcpy(&launch.parameters[parameter.offset], &buffer, sizeof(buffer));
        }
      }
      launches.push_back(std::move(launch));
    }
    for (const emu::Launch& launch : launches) {
      for (std::uint64_t seed = 0; seed < 2; ++seed) {
        const emu::RunOptions options{.seed = seed, .max_steps = 5000};
        if (device.host_bytes_of_run({&launch, 1}, options) < kMaxRun) {
          (void)device.run({&launch, 1}, options);
        }
      }
    }
  } catch (const emu::Error&) {
  }
  return 0;
}
