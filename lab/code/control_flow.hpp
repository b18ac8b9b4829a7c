// The control flow of a kernel's machine code: its basic blocks, and which role's they are.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/cards/card.hpp"

namespace fovea::lab {

/// One instruction of a disassembler's listing, in views into it.
struct Instruction {
  std::size_t address = 0;
  std::string_view predicate{};  // "@!P0", or nothing
  std::string_view name{};       // "LDG.E.128"
  std::string_view operands{};   // "R4, desc[UR4][R2.64]"

  /// Whether it is this instruction or a form of it: "LDG" covers "LDG.E.128", "LD" does not.
  [[nodiscard]] bool is(std::string_view instruction) const;
};

/// The instructions of a listing, whose other lines are passed over.
[[nodiscard]] std::vector<Instruction> read_instructions(std::string_view listing);

/// Instructions that are always carried out together.
struct BasicBlock {
  std::size_t first = 0;             // index of the first instruction
  std::size_t last = 0;              // one beyond
  std::vector<std::size_t> next{};   // blocks that may follow
  std::vector<std::size_t> calls{};  // blocks where functions begin that it calls
};

/// Follows the branches of a listing whose targets are addresses (nvdisasm -ndf -b): the
/// instructions are those of one kernel, or of several one after the other. Throws fovea::Error at
/// a branch whose target is in a register.
[[nodiscard]] std::vector<BasicBlock> control_flow(std::span<const Instruction> instructions);

/// Parts of a kernel beside its roles.
inline constexpr std::string_view kPrologue = "prologue";  // leads to more than one role
inline constexpr std::string_view kEpilogue = "epilogue";  // follows more than one role
inline constexpr std::string_view kIdle = "idle";          // threads that have no role
inline constexpr std::string_view kFunctions = "functions";
inline constexpr std::string_view kPadding = "padding";  // behind the last instruction

/// The part of the kernel that each block belongs to, and what is wrong with them.
struct RoleParts {
  std::vector<std::string> parts{};   // of each block
  std::vector<std::string> faults{};  // no role may reach another; only barriers join them
};

/// Finds the parts; where there are no roles every block is of the part "".
[[nodiscard]] RoleParts find_roles(std::span<const Instruction> instructions,
                                   std::span<const BasicBlock> blocks, std::span<const Role> roles);

/// The graph for graphviz's dot: a box a part, a node a block, with its instructions that are
/// listed (lab/code/instruction_kinds.hpp): products, accesses to memory, barriers.
[[nodiscard]] std::string to_dot(std::string_view kernel, std::span<const Instruction> instructions,
                                 std::span<const BasicBlock> blocks, const RoleParts& roles);

}  // namespace fovea::lab
