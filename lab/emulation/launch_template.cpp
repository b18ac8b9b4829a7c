// Launch file for a kernel, as far as its PTX tells what belongs into it.
#include "lab/emulation/launch_template.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "fovea_emulator/tensor_map.hpp"

namespace fovea::emulation {
namespace {

constexpr int kElements = 1024;  // of a buffer
constexpr int kBoxElements = 64;
constexpr int kBlockThreads = 256;  // where the kernel does not say how many
constexpr std::size_t kTensorMapAlignment = 64;

// The type of an argument in a launch file for a parameter's type in PTX; "" if there is none.
std::string argument_type(const std::string& type) {
  constexpr std::array<std::string_view, 13> kTypes = {
      "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "bf16", "f32", "f64", "b16"};
  if (std::ranges::find(kTypes, type) != kTypes.end()) {
    return type;
  }
  return type == "b8" ? "u8" : type == "b32" ? "u32" : type == "b64" ? "u64" : "";
}

bool is_address(const emu::Parameter& parameter) {
  return parameter.is_pointer || (parameter.bytes == sizeof(std::uint64_t) &&
                                  (parameter.type == "u64" || parameter.type == "b64"));
}

nlohmann::ordered_json sizes_or(const std::array<std::uint32_t, 3>& sizes, int otherwise) {
  if (sizes[0] == 0) {
    return otherwise;
  }
  return sizes;
}

}  // namespace

nlohmann::ordered_json template_of(const emu::KernelHandle& kernel) {
  auto buffers = nlohmann::ordered_json::object();
  auto arguments = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const emu::Parameter& parameter = kernel.parameters[i];
    const std::string name = fmt::format("buffer_{}", i);
    const std::string type = argument_type(parameter.type);
    const auto buffer =
        nlohmann::ordered_json{{"type", "f32"}, {"shape", {kElements}}, {"content", "zeros"}};
    if (is_address(parameter)) {
      buffers[name] = buffer;
      arguments.push_back({{"buffer", name}});
    } else if (parameter.bytes == emu::kTensorMapBytes &&
               parameter.alignment >= kTensorMapAlignment) {
      buffers[name] = buffer;
      arguments.push_back({{"tensor_map", {{"buffer", name}, {"box", {kBoxElements}}}}});
    } else if (!type.empty() && !parameter.is_array) {
      arguments.push_back({{type, 0}});
    } else {
      arguments.push_back({{"bytes", std::string(2 * parameter.bytes, '0')}});
    }
  }
  nlohmann::ordered_json launch = {{"kernel", kernel.name}, {"grid", 1}};
  launch["block"] =
      sizes_or(kernel.required_threads,
               kernel.max_threads != 0
                   ? static_cast<int>(std::min<std::uint64_t>(kernel.max_threads, kBlockThreads))
                   : kBlockThreads);
  if (kernel.required_cluster[0] != 0) {
    launch["grid"] = kernel.required_cluster;
    launch["cluster"] = kernel.required_cluster;
  }
  launch["shared_bytes"] = 0;
  launch["arguments"] = std::move(arguments);
  return {{"buffers", std::move(buffers)}, {"launch", std::move(launch)}};
}

}  // namespace fovea::emulation
