// Looks up instructions by name in the tables of the architectures.
#include "lab/code/instruction_kinds.hpp"

#include <algorithm>
#include <array>

namespace fovea::lab {
namespace {

/// Prefixes of the names of instructions that multiply or access memory.
constexpr std::array<std::string_view, 12> kBeginnings = {
    "LD", "ST", "ATOM", "RED", "UTMA", "UTC", "UBLK", "SULD", "SUST", "SUATOM", "SURED", "TLD"};

std::string_view operation_of_name(std::string_view name) {
  return name.substr(0, name.find('.'));
}

const gpu::ListedInstruction* find_listed(std::string_view name, const gpu::Arch& arch) {
  const auto found =
      std::ranges::find(arch.instructions, operation_of_name(name), &gpu::ListedInstruction::name);
  return found == arch.instructions.end() ? nullptr : &*found;
}

}  // namespace

InstructionKind kind_of(std::string_view name, int arch, gpu::Archs archs) {
  const gpu::ListedInstruction* found = nullptr;
  if (arch != 0) {
    found = find_listed(name, gpu::arch_up_to(arch, archs));
  } else {
    for (const gpu::Arch& row : archs) {
      found = found == nullptr ? find_listed(name, row) : found;
    }
  }
  return found == nullptr ? InstructionKind::kOther : found->kind;
}

bool is_work(InstructionKind kind) {
  return kind == InstructionKind::kMultiply || kind == InstructionKind::kAccess ||
         kind == InstructionKind::kReduce;
}

bool is_unknown(std::string_view name, int arch, gpu::Archs archs) {
  const std::string_view operation = operation_of_name(name);
  const bool is_like_one =
      operation.ends_with("MMA") || std::ranges::any_of(kBeginnings, [&](std::string_view begin) {
        return operation.starts_with(begin);
      });
  return is_like_one && find_listed(name, gpu::arch_up_to(arch, archs)) == nullptr;
}

}  // namespace fovea::lab
