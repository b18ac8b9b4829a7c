// Runs micro-kernels in the emulator.
#include "emulator/captures/emulate.hpp"

#include <array>
#include <cstring>

#include "fovea_emulator/device.hpp"
#include "fovea_emulator/error.hpp"
#include "fovea_emulator/tensor_map.hpp"

namespace captures {
namespace {

std::array<std::byte, kTensorMapBytes> encoded(const TensorMap& map, std::uint64_t buffer) {
  constexpr std::array kTypes = {emu::TensorMapType::kU8, emu::TensorMapType::kF16,
                                 emu::TensorMapType::kBF16, emu::TensorMapType::kF32};
  return emu::encode({.type = kTypes.at(static_cast<std::size_t>(map.element)),
                      .rank = map.rank,
                      .address = buffer + map.offset,
                      .dims = map.dims,
                      .strides = map.strides,
                      .box = map.box,
                      .swizzle = static_cast<emu::TensorMapSwizzle>(map.swizzle)});
}
static_assert(static_cast<int>(Swizzle::k128) == static_cast<int>(emu::TensorMapSwizzle::k128));
static_assert(static_cast<int>(Swizzle::k32) == static_cast<int>(emu::TensorMapSwizzle::k32));

}  // namespace

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
    for (std::size_t i = 0; i < kernel.maps.size(); ++i) {
      const auto map = encoded(kernel.maps[i], buffers.at(kernel.maps[i].buffer));
      std::memcpy(parameters.data() + kMapsOffset + i * kTensorMapBytes, map.data(), map.size());
    }
    const emu::Report report =
        device.launch(device.load(kernel.ptx).front(),
                      {.grid = kernel.grid,
                       .block = kernel.block,
                       .cluster = kernel.cluster,
                       .dynamic_shared_bytes = kernel.dynamic_shared_bytes},
                      parameters, {.seed = seed, .check_swizzle_starts = false});
    if (!report.is_clean()) {
      result.finding = report.findings.front().text();
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

namespace {

// What did not run as it should, here.
std::string unexpected(const MicroKernel& kernel, const Emulated& emulated) {
  if (!emulated.error.empty()) {
    return emulated.error;
  }
  if (kernel.is_illegal) {
    return emulated.finding.empty() ? "the emulator finds nothing wrong with it" : "";
  }
  return emulated.finding;
}

}  // namespace

std::string unlike_card(const fovea::captures::Results& card, const MicroKernel& kernel,
                        const std::vector<Bytes>& inputs, const Emulated& emulated) {
  const auto found = card.kernels.find(kernel.name);
  if (found == card.kernels.end() || found->second.identity != identity(kernel, inputs)) {
    return "the card has run none of this name, or another one: capture again";
  }
  const Record& record = found->second;
  if (kernel.is_illegal ? record.error.find("ILLEGAL_INSTRUCTION") == std::string::npos
                        : !record.error.empty()) {
    return record.error.empty() ? "the card has run it" : "the card refused it: " + record.error;
  }
  const std::string wrong = unexpected(kernel, emulated);
  if (kernel.is_illegal || !wrong.empty()) {
    return wrong;
  }
  const std::string differing = difference(record, emulated.outputs, kernel.tolerance);
  if (kernel.difference_on_cards.empty()) {
    return differing;
  }
  return differing.empty() ? "the card computes the same, although " + kernel.difference_on_cards
                           : "";
}

std::string unlike_model(const MicroKernel& kernel, const std::vector<Bytes>& inputs,
                         const Emulated& emulated) {
  const std::string wrong = unexpected(kernel, emulated);
  return kernel.is_illegal || !kernel.model || !wrong.empty()
             ? wrong
             : difference(kernel.model(inputs), emulated.outputs, kernel.model_tolerance);
}

}  // namespace captures
