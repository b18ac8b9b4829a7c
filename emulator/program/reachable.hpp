// Functions and variables that a kernel may use.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "emulator/syntax/module.hpp"

namespace emu {

/// What a kernel may use: the functions that it calls, whose bodies are parsed, and the module's
/// variables, by their numbers.
struct Reachable {
  std::deque<syntax::Function> functions{};                    // the kernel first
  std::map<std::string, std::int32_t, std::less<>> numbers{};  // of functions, by their names
  std::set<std::size_t> variables{};
};

/// Returns the operand of a call that says what is called.
const syntax::Operand& called_operand(const syntax::Instruction& instruction);

/// Finds what the kernel may use. Throws emu::Error, with the line, where that is not supported.
Reachable find_reachable(const syntax::Module& module, const syntax::Function& kernel,
                         syntax::MemoryCharge& memory);

}  // namespace emu
