// Functions and variables that a kernel may use.
#include "emulator/program/reachable.hpp"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

using syntax::Operand;
using syntax::OperandKind;

class Search {
 public:
  Search(const syntax::Module& module, syntax::MemoryCharge& memory)
      : module_(module), memory_(memory) {}

  Reachable run(const syntax::Function& kernel) {
    add(kernel);
    for (std::size_t i = 0; i < found_.functions.size(); ++i) {
      for (const syntax::Instruction& instruction : found_.functions[i].instructions) {
        scan(instruction);
      }
      if (i + 1 == found_.functions.size() && has_indirect_call_) {
        add_addressed_functions();
      }
    }
    return std::move(found_);
  }

 private:
  void add(const syntax::Function& function) {
    const auto number = static_cast<std::int32_t>(found_.functions.size());
    if (found_.numbers.emplace(function.name, number).second) {
      if (!function.refusal.empty()) {
        throw Error(function.refusal);
      }
      found_.functions.push_back(syntax::parse_body(module_, function, memory_));
    }
  }

  void scan(const syntax::Instruction& instruction) {
    const bool is_call = instruction.opcode == "call" || instruction.opcode.starts_with("call.");
    const Operand* const called = is_call ? &called_operand(instruction) : nullptr;
    has_indirect_call_ = has_indirect_call_ || (is_call && called->kind == OperandKind::kRegister);
    for (const Operand& operand : instruction.operands) {
      scan(operand, instruction, &operand == called);
    }
  }

  void scan(const Operand& operand, const syntax::Instruction& instruction, bool is_called) {
    for (const Operand& part : operand.parts) {
      scan(part, instruction, false);
    }
    if (operand.kind != OperandKind::kSymbol || operand.index >= 0) {
      return;
    }
    const auto variable = module_.variable_numbers.find(operand.name);
    if (variable != module_.variable_numbers.end()) {
      const std::string& refusal = module_.variables[variable->second].refusal;
      if (!refusal.empty()) {
        throw Error(fmt::format("line {}: {}: unsupported variable {} ({})", instruction.line,
                                instruction.opcode, operand.name, refusal));
      }
      found_.variables.insert(variable->second);
    } else if (const syntax::Function* const function = module_.find_function(operand.name);
               function != nullptr && function->is_defined) {
      if (is_called) {
        add(*function);
      } else {
        addressed_.push_back(function);
      }
    }
  }

  // Adds the functions whose address is somewhere: an indirect call may reach any of them.
  void add_addressed_functions() {
    for (const syntax::Variable& variable : module_.variables) {
      for (const syntax::Relocation& relocation : variable.relocations) {
        const syntax::Function* const function = module_.find_function(relocation.symbol);
        if (function != nullptr && function->is_defined) {
          add(*function);
        }
      }
    }
    for (const syntax::Function* const function : addressed_) {
      add(*function);
    }
    addressed_.clear();
  }

  const syntax::Module& module_;
  syntax::MemoryCharge& memory_;
  Reachable found_;
  bool has_indirect_call_ = false;
  std::vector<const syntax::Function*> addressed_;
};

}  // namespace

const Operand& called_operand(const syntax::Instruction& instruction) {
  const std::vector<Operand>& operands = instruction.operands;
  const std::size_t number =
      !operands.empty() && operands.front().kind == OperandKind::kList ? 1 : 0;
  if (number >= operands.size()) {
    throw Error(
        fmt::format("line {}: {}: expected a function", instruction.line, instruction.opcode));
  }
  return operands[number];
}

Reachable find_reachable(const syntax::Module& module, const syntax::Function& kernel,
                         syntax::MemoryCharge& memory) {
  return Search(module, memory).run(kernel);
}

}  // namespace emu
