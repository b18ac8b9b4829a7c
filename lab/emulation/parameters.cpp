// Encodes the arguments of a launch file in the layout of a kernel's parameter space.
#include "lab/emulation/parameters.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "core/error.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "lab/emulation/emulation.hpp"

namespace fovea::emulation {
namespace {

// Returns the size of an argument in bytes, or std::nullopt for structs, which take the parameter's
// size.
std::optional<std::size_t> size_of(const Argument& argument) {
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&argument.what)) {
    return bytes->size();
  }
  if (std::holds_alternative<BufferAddress>(argument.what)) {
    return sizeof(std::uint64_t);
  }
  if (std::holds_alternative<TensorMapArgument>(argument.what)) {
    return emu::kTensorMapBytes;
  }
  return std::nullopt;
}

void write_argument(const Argument& argument, const ArgumentMeaning& meaning,
                    std::span<std::byte> to) {
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&argument.what)) {
    std::ranges::copy(*bytes, to.begin());
  } else if (const auto* address = std::get_if<BufferAddress>(&argument.what)) {
    const std::uint64_t value = meaning.address_of(*address);
    std::memcpy(to.data(), &value, sizeof(value));
  } else if (const auto* map = std::get_if<TensorMapArgument>(&argument.what)) {
    try {
      std::ranges::copy(meaning.encode_map(*map), to.begin());
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      fail("{}.tensor_map: {}", argument.path, error.what());
    }
  } else {
    const auto& parts = std::get<StructArgument>(argument.what);
    for (std::size_t i = 0; i < parts.fields.size(); ++i) {
      const Argument& field = parts.fields[i];
      const std::size_t offset = parts.offsets[i];
      const std::optional<std::size_t> size = size_of(field);
      const std::size_t rest = offset <= to.size() ? to.size() - offset : 0;
      if (offset > to.size() || size.value_or(rest) > rest) {
        fail("{}: the member ends beyond the {} bytes of the struct", field.path, to.size());
      }
      write_argument(field, meaning, to.subspan(offset, size.value_or(rest)));
    }
  }
}

}  // namespace

std::vector<std::byte> encode_parameters(const LaunchText& launch, const emu::KernelHandle& kernel,
                                         const ArgumentMeaning& meaning) {
  const std::vector<emu::Parameter>& parameters = kernel.parameters;
  if (launch.arguments.size() != parameters.size()) {
    fail("{}.arguments: got {} arguments, but {} has {} parameters", launch.path,
         launch.arguments.size(), source_name(kernel.name), parameters.size());
  }
  std::vector<std::byte> bytes(
      parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Argument& argument = launch.arguments[i];
    const std::size_t size = size_of(argument).value_or(parameters[i].bytes);
    if (size != parameters[i].bytes) {
      fail("{}: the argument has {} bytes, but the parameter {} has {}", argument.path, size,
           parameters[i].name, parameters[i].bytes);
    }
    write_argument(argument, meaning, std::span(bytes).subspan(parameters[i].offset, size));
  }
  return bytes;
}

}  // namespace fovea::emulation
