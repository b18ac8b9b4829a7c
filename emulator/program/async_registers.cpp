// Registers that matrix products of a warpgroup use while the warp goes on.
#include "emulator/program/async_registers.hpp"

#include <unordered_map>

namespace emu {

void number_async_registers(Program& program) {
  std::unordered_map<Slot, std::uint32_t> numbers;
  for (Op& op : program.ops) {
    if (!op.is_async_product) {
      continue;
    }
    for (const Slot slot : op.list) {
      const auto next = static_cast<std::uint32_t>(numbers.size());
      op.async_registers.push_back(numbers.try_emplace(slot, next).first->second);
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
    const auto add = [&](Slot slot) {
      if (const auto found = numbers.find(slot); found != numbers.end()) {
        op.async_registers.push_back(found->second);
      }
    };
    for (const Slot slot : op.slots) {
      add(slot);
    }
    for (const Slot slot : op.list) {
      add(slot);
    }
  }
}

}  // namespace emu
