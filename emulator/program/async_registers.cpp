// Registers that asynchronous matrix products use after the warp has issued them.
#include <algorithm>
#include <unordered_map>

#include "emulator/program/decoder.hpp"

namespace emu {
namespace {

using syntax::Operand;
using syntax::OperandKind;

// Lists the registers that an instruction writes: its first operand, unless that is an address.
std::vector<Slot> written_slots(const Op& op,
                                const std::function<Slot(const Op& op, int index)>& slot_of) {
  const syntax::Instruction& instruction = *op.instruction;
  std::vector<Slot> slots;
  const auto add = [&](const Operand& operand) {
    if (operand.kind == OperandKind::kRegister) {
      slots.push_back(slot_of(op, operand.index));
    }
  };
  if (!instruction.operands.empty() && instruction.operands[0].kind != OperandKind::kAddress) {
    add(instruction.operands[0]);
    std::ranges::for_each(instruction.operands[0].parts, add);
  }
  return slots;
}

bool is_constant(const syntax::Instruction& instruction) {
  return instruction.opcode.starts_with("mov.") && instruction.operands.size() == 2 &&
         (instruction.operands[1].kind == OperandKind::kInteger ||
          instruction.operands[1].kind == OperandKind::kSingle);
}

}  // namespace

void number_async_registers(Program& program,
                            const std::function<Slot(const Op& op, int index)>& slot_of) {
  std::unordered_map<Slot, std::uint32_t> numbers;
  for (Op& op : program.ops) {
    if (!op.is_async_product) {
      continue;
    }
    for (const Slot slot : op.list) {
      const auto next = static_cast<std::uint32_t>(numbers.size());
      op.async_registers.push_back({.number = numbers.try_emplace(slot, next).first->second});
    }
  }
  program.async_registers = static_cast<std::uint32_t>(numbers.size());
  if (numbers.empty()) {
    return;
  }
  for (Op& op : program.ops) {
    if (op.is_async_product) {
      continue;
    }
    const std::vector<Slot> written = written_slots(op, slot_of);
    const auto add = [&](Slot slot) {
      if (const auto number = numbers.find(slot); number != numbers.end()) {
        op.async_registers.push_back(
            {.number = number->second,
             .is_written = std::ranges::find(written, slot) != written.end(),
             .is_constant = is_constant(*op.instruction)});
      }
    };
    std::ranges::for_each(op.slots, add);
    std::ranges::for_each(op.list, add);
  }
}

}  // namespace emu
