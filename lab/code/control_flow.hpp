// The control-flow graph of a kernel's machine code: its basic blocks, and the role that executes
// each.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/cards/card.hpp"

namespace fovea::lab {

/// One instruction in a disassembler's listing; the members are views into the listing.
struct Instruction {
  std::size_t address = 0;
  std::string_view predicate{};  // "@!P0", or empty
  std::string_view name{};       // "LDG.E.128"
  std::string_view operands{};   // "R4, desc[UR4][R2.64]"

  /// Returns whether it is this instruction or a variant of it: "LDG" matches "LDG.E.128", "LD"
  /// does not.
  [[nodiscard]] bool is(std::string_view instruction) const;
};

/// Returns the instructions in a listing; other lines are skipped.
[[nodiscard]] std::vector<Instruction> read_instructions(std::string_view listing);

/// A basic block: instructions that are always executed together.
struct BasicBlock {
  std::size_t first = 0;             // index of the first instruction
  std::size_t last = 0;              // index after the last instruction
  std::vector<std::size_t> next{};   // blocks that may follow
  std::vector<std::size_t> calls{};  // entry blocks of the functions that it calls
};

/// Builds the control-flow graph of a listing whose branch targets are addresses (nvdisasm -ndf
/// -b), for one kernel or for several in sequence. Throws fovea::Error at a branch whose target is
/// in a register.
[[nodiscard]] std::vector<BasicBlock> control_flow(std::span<const Instruction> instructions);

/// Names for the parts of a kernel that belong to no single role.
inline constexpr std::string_view kPrologue = "prologue";  // leads to more than one role
inline constexpr std::string_view kEpilogue = "epilogue";  // follows more than one role
inline constexpr std::string_view kIdle = "idle";          // threads that have no role
inline constexpr std::string_view kFunctions = "functions";
inline constexpr std::string_view kPadding = "padding";  // after the last instruction

/// The part of the kernel that each block belongs to, and violations of the separation of roles.
struct RoleParts {
  std::vector<std::string> parts{};   // by block
  std::vector<std::string> faults{};  // a role that reaches another, or code shared by roles that
                                      // is not a barrier
};

/// Finds the parts; if the kernel has no roles, every block's part is "".
[[nodiscard]] RoleParts find_roles(std::span<const Instruction> instructions,
                                   std::span<const BasicBlock> blocks, std::span<const Role> roles);

/// Returns the graph in graphviz's dot language: a cluster per part, a node per block, and in each
/// node the products, memory accesses and barriers (lab/code/instruction_kinds.hpp).
[[nodiscard]] std::string to_dot(std::string_view kernel, std::span<const Instruction> instructions,
                                 std::span<const BasicBlock> blocks, const RoleParts& roles);

}  // namespace fovea::lab
