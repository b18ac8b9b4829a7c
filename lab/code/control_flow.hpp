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

  /// Returns whether the name is this instruction or a variant of it: "LDG.E.128" is an "LDG", but
  /// not an "LD".
  [[nodiscard]] bool is(std::string_view instruction) const;
};

/// Returns the instructions in a listing; other lines are skipped.
[[nodiscard]] std::vector<Instruction> read_instructions(std::string_view listing);

/// A basic block: instructions that are always executed together.
struct BasicBlock {
  std::size_t first = 0;             // index of the first instruction
  std::size_t last = 0;              // index of the last instruction plus one
  std::vector<std::size_t> next{};   // blocks that may follow
  std::vector<std::size_t> calls{};  // entry blocks of the functions that it calls
};

/// Builds the control-flow graph of a listing whose branch targets are addresses (nvdisasm -ndf
/// -b), for one kernel or for several in sequence. Throws fovea::Error at a branch whose target is
/// in a register.
[[nodiscard]] std::vector<BasicBlock> control_flow(std::span<const Instruction> instructions);

/// Names of the parts of a kernel that do not belong to a single role.
inline constexpr std::string_view kPrologue = "prologue";  // code before the roles separate
inline constexpr std::string_view kEpilogue = "epilogue";  // code after roles have joined
inline constexpr std::string_view kIdle = "idle";          // threads that have no role
inline constexpr std::string_view kFunctions = "functions";
inline constexpr std::string_view kPadding = "padding";  // after the last instruction

/// The parts of the kernel that its blocks belong to, and violations of the separation of roles.
struct RoleParts {
  std::vector<std::string> parts{};  // part of each block
  std::vector<std::string>
      faults{};  // paths from a role to another one, and shared code other than barriers
};

/// Finds the part of each block. If the kernel has no roles, all parts are "".
[[nodiscard]] RoleParts find_roles(std::span<const Instruction> instructions,
                                   std::span<const BasicBlock> blocks, std::span<const Role> roles);

/// Returns the graph in graphviz's dot language: a cluster per part, a node per block, and in each
/// node the products, memory accesses and barriers (lab/code/instruction_kinds.hpp).
[[nodiscard]] std::string to_dot(std::string_view kernel, std::span<const Instruction> instructions,
                                 std::span<const BasicBlock> blocks, const RoleParts& roles);

}  // namespace fovea::lab
