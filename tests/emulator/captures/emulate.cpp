// Runs micro-kernels in the emulator.
#include "emulator/captures/emulate.hpp"

#include <cstring>

#include "fovea_emulator/device.hpp"
#include "fovea_emulator/error.hpp"

namespace captures {

Emulated emulate(const MicroKernel& kernel, const std::vector<Bytes>& inputs, std::uint64_t seed) {
  Emulated result;
  try {
    emu::Device device;
    Bytes parameters(parameter_bytes(kernel));
    std::vector<std::uint64_t> buffers;
    const auto add = [&](const Bytes& bytes) {
      const std::uint64_t address = device.allocate(bytes.size());
      device.write(address, bytes);
      std::memcpy(parameters.data() + buffers.size() * 8, &address, 8);
      buffers.push_back(address);
    };
    for (const Bytes& input : inputs) {
      add(input);
    }
    for (const std::size_t bytes : kernel.outputs) {
      add(Bytes(bytes, kUntouched));
    }
    const emu::Report report = device.launch(
        device.load(kernel.ptx).front(),
        {.grid = kernel.grid,
         .block = kernel.block,
         .cluster = kernel.cluster,
         .dynamic_shared_bytes = kernel.dynamic_shared_bytes},
        parameters, {.seed = seed});
    if (!report.is_clean()) {
      result.error = report.findings.front().text();
      return result;
    }
    for (std::size_t k = 0; k < kernel.outputs.size(); ++k) {
      result.outputs.emplace_back(kernel.outputs[k]);
      device.read(result.outputs.back(), buffers[inputs.size() + k]);
    }
  } catch (const emu::Error& error) {
    result.error = error.what();
  }
  return result;
}

}  // namespace captures
