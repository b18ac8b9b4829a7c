// Names of places in shared memory, for findings.
#include "emulator/program/place_name.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "emulator/syntax/types.hpp"
#include "fovea_emulator/finding.hpp"

namespace emu {
namespace {

const SharedVariable* find_variable(const Program& program, std::uint64_t offset) {
  const auto found = std::ranges::find_if(program.shared, [&](const SharedVariable& variable) {
    return variable.offset <= offset && offset - variable.offset < variable.bytes;
  });
  return found == program.shared.end() ? nullptr : &*found;
}

// Returns the name without the function that a variable belongs to: "tile" for "kernel()::tile".
std::string plain_name(const std::string& symbol) {
  const std::string name = source_name(symbol);
  const std::size_t end = name.rfind("::");
  return end == std::string::npos || name.ends_with(')') ? name : name.substr(end + 2);
}

// Returns the size of the elements that the instruction names: 4 for "ld.shared.v4.f32"; 0 if it
// names none.
std::size_t element_bytes(std::string_view opcode) {
  std::size_t bytes = 0;
  while (!opcode.empty()) {
    const std::size_t dot = opcode.find('.');
    if (const auto type = find_type(opcode.substr(0, dot)); type && *type != Type::kPred) {
      bytes = static_cast<std::size_t>(bits_of(*type)) / 8;
    }
    opcode = dot == std::string_view::npos ? std::string_view() : opcode.substr(dot + 1);
  }
  return bytes;
}

}  // namespace

std::string shared_place_name(const Program& program, const std::string& opcode,
                              std::uint64_t offset) {
  const SharedVariable* const variable = find_variable(program, offset);
  if (variable == nullptr) {
    return "";
  }
  const std::uint64_t place = offset - variable->offset;
  const bool has_elements = opcode.starts_with("ld") || opcode.starts_with("st") ||
                            opcode.starts_with("atom") || opcode.starts_with("red");
  const std::size_t bytes = has_elements ? element_bytes(opcode) : 0;
  return bytes != 0 && place % bytes == 0
             ? fmt::format("{}[{}]", plain_name(variable->name), place / bytes)
             : fmt::format("{} + {} bytes", plain_name(variable->name), place);
}

std::string shared_variable_name(const Program& program, std::uint64_t offset) {
  const SharedVariable* const variable = find_variable(program, offset);
  return variable == nullptr ? "" : plain_name(variable->name);
}

}  // namespace emu
