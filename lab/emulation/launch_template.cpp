// Launch file for a kernel, as far as its PTX tells what belongs into it.
#include "lab/emulation/launch_template.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

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
  constexpr std::array<std::string_view, 13> kArgumentTypes = {
      "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "bf16", "f32", "f64", "b16"};
  if (std::ranges::find(kArgumentTypes, type) != kArgumentTypes.end()) {
    return type;
  }
  return type == "b8" ? "u8" : type == "b32" ? "u32" : type == "b64" ? "u64" : "";
}

// Returns the types of the parameters of a function's name in C++, such as "float const*".
std::vector<std::string> parameter_types(const std::string& name) {
  const std::string plain = plain_name(name);
  std::vector<std::string> types;
  const std::size_t begin = name.find(plain) + plain.size();
  int depth = 0;  // nesting depth of brackets
  for (std::size_t i = begin; i < name.size(); ++i) {
    const bool opens = std::string_view("(<[{").find(name[i]) != std::string_view::npos;
    const bool closes = std::string_view(")>]}").find(name[i]) != std::string_view::npos;
    if (closes && --depth == 0) {
      break;
    }
    if ((depth == 1 && name[i] == ',') || (depth == 0 && opens)) {
      types.emplace_back();
    } else if (depth >= 1 && (name[i] != ' ' || !types.back().empty())) {
      types.back() += name[i];
    }
    depth += opens ? 1 : 0;
  }
  return types;
}

// Returns what a pointer in C++ such as "float const*" points to, "float"; other types as they are.
std::string pointed_to(std::string type) {
  if (const std::size_t pointer = type.rfind('*'); pointer != std::string::npos) {
    type.resize(pointer);
    for (const std::string_view word : {" volatile", " const"}) {
      if (type.ends_with(word)) {
        type.resize(type.size() - word.size());
      }
    }
  }
  return type;
}

// Returns the element type for a type in C++; "f32" where it is not known.
std::string element_type(const std::string& type) {
  struct Name {
    std::string_view in_source;
    std::string_view in_file;
  };
  constexpr std::array kNames = {
      Name{"bool", "u8"},
      Name{"char", "s8"},
      Name{"signed char", "s8"},
      Name{"unsigned char", "u8"},
      Name{"short", "s16"},
      Name{"unsigned short", "u16"},
      Name{"int", "s32"},
      Name{"unsigned int", "u32"},
      Name{"long", "s64"},
      Name{"unsigned long", "u64"},
      Name{"long long", "s64"},
      Name{"unsigned long long", "u64"},
      Name{"double", "f64"},
      Name{"__half", "f16"},
      Name{"__nv_bfloat16", "bf16"},
      Name{"__nv_fp8_e4m3", "e4m3"},
  };
  const auto* const name = std::ranges::find(kNames, type, &Name::in_source);
  return std::string(name == kNames.end() ? "f32" : name->in_file);
}

// Adds a buffer of what a pointer points to; behind a pointer to pointers, with addresses of
// another buffer.
void add_buffer(nlohmann::ordered_json& buffers, const std::string& name, const std::string& type) {
  const std::string element = pointed_to(type);
  if (element.ends_with('*')) {
    const std::string of_elements = name + "_0";
    auto addresses = nlohmann::ordered_json::array();
    addresses.push_back({{"buffer", of_elements}});
    buffers[name] = {{"type", "u64"}, {"content", {{"addresses", std::move(addresses)}}}};
    add_buffer(buffers, of_elements, element);
  } else {
    buffers[name] = {{"type", element_type(element)}, {"shape", {kElements}}, {"content", "zeros"}};
  }
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

nlohmann::ordered_json template_of(const Module& module, const emu::KernelHandle& kernel) {
  const std::vector<std::string> types =
      parameter_types(source_name(kernel.name, std::string::npos));
  auto buffers = nlohmann::ordered_json::object();
  auto arguments = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const emu::Parameter& parameter = kernel.parameters[i];
    const std::string name = fmt::format("buffer_{}", i);
    const std::string type = argument_type(parameter.type);
    const std::string source_type = i < types.size() ? types[i] : "";
    if (is_address(parameter)) {
      add_buffer(buffers, name, source_type);
      arguments.push_back({{"buffer", name}});
    } else if (parameter.bytes == emu::kTensorMapBytes &&
               parameter.alignment >= kTensorMapAlignment) {
      add_buffer(buffers, name, source_type);
      arguments.push_back({{"tensor_map", {{"buffer", name}, {"box", {kBoxElements}}}}});
    } else if (!type.empty() && !parameter.is_array) {
      arguments.push_back({{type, 0}});
    } else {
      arguments.push_back({{"bytes", std::string(2 * parameter.bytes, '0')}});
    }
  }
  nlohmann::ordered_json launch = {{"kernel", module.unique_name(kernel)}, {"grid", 1}};
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
