// Runs micro-kernels on a card.
#include "emulator/captures/tool/card.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace captures {
namespace {

namespace gpu = fovea::gpu;

gpu::TensorMapDesc described(const TensorMap& map, gpu::DevicePtr buffer) {
  gpu::TensorMapDesc desc;
  desc.type = static_cast<gpu::TensorMapType>(map.element);
  desc.address = buffer + map.offset;
  desc.rank = map.rank;
  desc.dims = map.dims;
  desc.strides = map.strides;
  desc.box = map.box;
  desc.swizzle = static_cast<gpu::Swizzle>(map.swizzle);
  return desc;
}
static_assert(static_cast<int>(Element::kF32) == static_cast<int>(gpu::TensorMapType::kF32));
static_assert(static_cast<int>(Element::kBF16) == static_cast<int>(gpu::TensorMapType::kBF16));
static_assert(static_cast<int>(Element::kF16) == static_cast<int>(gpu::TensorMapType::kF16));
static_assert(static_cast<int>(Swizzle::k128) == static_cast<int>(gpu::Swizzle::k128));
static_assert(static_cast<int>(Swizzle::k32) == static_cast<int>(gpu::Swizzle::k32));
static_assert(sizeof(fovea::TensorMap) == kTensorMapBytes);

Bytes image_of(const MicroKernel& kernel, const std::filesystem::path& cubins) {
  std::string image = kernel.ptx;
  image.push_back('\0');
  if (!cubins.empty()) {
    const std::filesystem::path path = cubins / (file_name(kernel) + ".cubin");
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      throw fovea::Error(fmt::format("{} cannot be read", path.string()));
    }
    image.assign(std::istreambuf_iterator<char>(file), {});
  }
  Bytes bytes(image.size());
  std::memcpy(bytes.data(), image.data(), image.size());
  return bytes;
}

gpu::Dim3 dim(const std::array<std::uint32_t, 3>& sizes) {
  return {sizes[0], sizes[1], sizes[2]};
}

}  // namespace

std::string file_name(const MicroKernel& kernel) {
  std::string name = kernel.name;
  std::ranges::replace(name, ':', '_');
  return name;
}

std::vector<Bytes> run_on_card(gpu::Device& device, const MicroKernel& kernel,
                               const std::filesystem::path& cubins) {
  const auto stream = device.make_stream();
  std::vector<gpu::DeviceBuffer> buffers;
  Bytes parameters(parameter_bytes(kernel));
  const auto put = [&](const Bytes& bytes) {
    const gpu::DeviceBuffer& buffer = buffers.emplace_back(device, bytes.size());
    device.copy_to_device(buffer.address(), bytes, *stream);
    stream->synchronize();
    const std::uint64_t address = buffer.address();
    std::memcpy(parameters.data() + (buffers.size() - 1) * 8, &address, 8);
  };
  for (const Bytes& input : kernel.make_inputs()) {
    put(input);
  }
  for (const std::size_t bytes : kernel.outputs) {
    put(Bytes(bytes, kUntouched));
  }
  for (std::size_t i = 0; i < kernel.maps.size(); ++i) {
    const fovea::TensorMap map =
        device.encode(described(kernel.maps[i], buffers.at(kernel.maps[i].buffer).address()));
    std::memcpy(parameters.data() + kMapsOffset + i * kTensorMapBytes, &map, sizeof(map));
  }
  const gpu::Kernel loaded = device.find(device.load(image_of(kernel, cubins)), "micro");
  device.launch(loaded,
                {.grid = dim(kernel.grid),
                 .block = dim(kernel.block),
                 .cluster = dim(kernel.cluster),
                 .dynamic_shared_bytes = kernel.dynamic_shared_bytes},
                parameters, *stream);
  stream->synchronize();
  std::vector<Bytes> outputs;
  for (std::size_t k = 0; k < kernel.outputs.size(); ++k) {
    Bytes& output = outputs.emplace_back(kernel.outputs[k]);
    device.copy_to_host(output, buffers.at(kernel.inputs.size() + k).address(), *stream);
  }
  stream->synchronize();
  return outputs;
}

}  // namespace captures
