// Looks up instructions by name in the tables of the architectures.
#include "lab/code/instruction_kinds.hpp"

#include <algorithm>
#include <array>

namespace fovea::lab {
namespace {

/// Prefixes of the names of memory instructions and of tensor core instructions (UTC).
constexpr std::array<std::string_view, 12> kPrefixes = {
    "LD", "ST", "ATOM", "RED", "UTMA", "UTC", "UBLK", "SULD", "SUST", "SUATOM", "SURED", "TLD"};

std::string_view opcode_name(std::string_view name) {
  return name.substr(0, name.find('.'));
}

const gpu::ListedInstruction* find_listed(std::string_view name, const gpu::Arch& arch) {
  const auto match =
      std::ranges::find(arch.instructions, opcode_name(name), &gpu::ListedInstruction::name);
  return match == arch.instructions.end() ? nullptr : &*match;
}

}  // namespace

InstructionKind kind_of(std::string_view name, int arch, gpu::Archs archs) {
  const gpu::ListedInstruction* match = nullptr;
  if (arch != 0) {
    match = find_listed(name, gpu::arch_up_to(arch, archs));
  } else {
    for (const gpu::Arch& row : archs) {
      match = match == nullptr ? find_listed(name, row) : match;
    }
  }
  return match == nullptr ? InstructionKind::kOther : match->kind;
}

bool is_work(InstructionKind kind) {
  return kind == InstructionKind::kMultiply || kind == InstructionKind::kAccess ||
         kind == InstructionKind::kReduce;
}

bool is_unknown(std::string_view name, int arch, gpu::Archs archs) {
  const std::string_view operation = opcode_name(name);
  const bool has_known_prefix =
      operation.ends_with("MMA") || std::ranges::any_of(kPrefixes, [&](std::string_view begin) {
        return operation.starts_with(begin);
      });
  return has_known_prefix && find_listed(name, gpu::arch_up_to(arch, archs)) == nullptr;
}

}  // namespace fovea::lab
