// Layout of a kernel: the register file, and the places of variables, parameters and functions.
#include "emulator/program/layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "emulator/program/address_space.hpp"
#include "emulator/syntax/limits.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

using syntax::align_up;
using syntax::Space;

}  // namespace

ProgramLayout::ProgramLayout(const syntax::Module& module,
                             const std::deque<syntax::Function>& functions,
                             const std::set<std::size_t>& variables,
                             const GlobalAddresses& global_addresses, Program& program)
    : program_(program) {
  for (const auto& [name, address] : global_addresses) {
    places_[name] = {Space::kGlobal, address};
  }
  std::vector<Place*> dynamic_places;
  std::vector<std::string> dynamic_names;
  const auto place = [&](const syntax::Variable& variable, Place& where) {
    if (variable.bytes == 0) {
      program.dynamic_alignment = std::max(program.dynamic_alignment, variable.alignment);
      dynamic_places.push_back(&where);
      dynamic_names.push_back(variable.name);
    } else {
      where = {Space::kShared, place_shared(variable)};
    }
  };
  for (std::size_t number = 0; number < module.variables.size(); ++number) {
    const syntax::Variable& variable = module.variables[number];
    if (variable.space == Space::kShared && variables.contains(number)) {
      place(variable, places_[variable.name]);
    }
  }
  for (std::size_t number = 0; number < functions.size(); ++number) {
    const syntax::Function& function = functions[number];
    for (std::size_t symbol = 0; symbol < function.symbol_count(); ++symbol) {
      if (function.symbol(symbol).space == Space::kShared) {
        place(function.symbol(symbol), shared_places_[{number, symbol}]);
      }
    }
  }
  if (program.static_shared_bytes > syntax::kMaxSharedBytes) {
    throw Error(fmt::format("line {}: {} has {} bytes of shared memory; at most {} are allowed",
                            functions.front().line, functions.front().name,
                            program.static_shared_bytes, syntax::kMaxSharedBytes));
  }
  // Dynamic shared memory lies after all static variables.
  const std::size_t end =
      align_up(kReservedSharedBytes + program.static_shared_bytes, program.dynamic_alignment);
  for (Place* const where : dynamic_places) {
    *where = {Space::kShared, end};
  }
  for (const std::string& name : dynamic_names) {
    program.shared.push_back({.name = name, .offset = end, .bytes = syntax::kMaxSharedBytes});
  }
}

std::uint64_t ProgramLayout::place_shared(const syntax::Variable& variable) {
  const std::size_t offset =
      align_up(kReservedSharedBytes + program_.static_shared_bytes, variable.alignment);
  program_.static_shared_bytes = offset + variable.bytes - kReservedSharedBytes;
  program_.shared.push_back({.name = variable.name, .offset = offset, .bytes = variable.bytes});
  return offset;
}

Slot ProgramLayout::allocate_slot(int bits) {
  const Slot slot = program_.register_file_words + kHeaderWords;
  program_.register_file_words = slot + register_words(bits);
  return slot;
}

Slot ProgramLayout::constant(std::uint64_t value, int bits, bool is_shared_address) {
  const auto [entry, is_new] = constants_.try_emplace({bits, value, is_shared_address}, kNoSlot);
  if (is_new) {
    entry->second = allocate_slot(bits);
    program_.constants.push_back({.slot = entry->second,
                                  .bits = bits,
                                  .value = value,
                                  .is_shared_address = is_shared_address});
  }
  return entry->second;
}

Slot ProgramLayout::special(SpecialRegisterName name, int bits) {
  const auto [entry, is_new] = specials_.try_emplace({name.kind, name.index, bits}, kNoSlot);
  if (is_new) {
    program_.has_group_scratch |= name.kind == SpecialKind::kGroupScratch;
    entry->second = allocate_slot(bits);
    program_.specials.push_back({.slot = entry->second, .bits = bits, .name = name});
  }
  return entry->second;
}

Slot ProgramLayout::carry() {
  if (carry_ == kNoSlot) {
    carry_ = allocate_slot(1);
  }
  return carry_;
}

const Place* ProgramLayout::find_place(const std::string& name) const {
  const auto entry = places_.find(name);
  return entry == places_.end() ? nullptr : &entry->second;
}

Layout::Layout(ProgramLayout& shared, std::size_t number, const syntax::Function& function)
    : shared_(shared), function_(function) {
  for (const syntax::Register& reg : function.registers) {
    slots_.push_back(shared.allocate_slot(reg.bits));
  }
  place_symbols(number);
  if (frame_bytes_ > syntax::kMaxLocalBytes) {
    throw Error(fmt::format("line {}: {} has {} bytes of local memory; at most {} are allowed",
                            function.line, function.name, frame_bytes_, syntax::kMaxLocalBytes));
  }
}

// A kernel's own frame begins at address 0 of local memory, so that its addresses are constants.
// Arguments and results of calls share an area behind the other variables.
void Layout::place_symbols(std::size_t number) {
  const bool is_kernel = function_.is_kernel;
  const std::size_t header_symbols = function_.parameters.size() + function_.results.size();
  std::vector<Place*> passed;
  places_.resize(function_.symbol_count());
  for (std::size_t symbol = 0; symbol < places_.size(); ++symbol) {
    const syntax::Variable& variable = function_.symbol(symbol);
    Place& place = places_[symbol];
    if (variable.space == Space::kShared) {
      place = shared_.shared_place(number, symbol);
    } else if (variable.space == Space::kParameter && is_kernel && symbol < header_symbols) {
      place = {Space::kParameter, variable.offset};
    } else if (variable.space == Space::kParameter && symbol >= header_symbols) {
      place = {Space::kLocal, variable.offset, !is_kernel};
      passed.push_back(&place);
      frame_alignment_ = std::max(frame_alignment_, variable.alignment);
    } else if (variable.space != Space::kRegister) {
      place = {Space::kLocal, align_up(frame_bytes_, variable.alignment), !is_kernel};
      frame_bytes_ = place.address + variable.bytes;
      frame_alignment_ = std::max(frame_alignment_, variable.alignment);
    }
  }
  if (!passed.empty()) {
    const std::size_t area = align_up(frame_bytes_, frame_alignment_);
    frame_bytes_ = area + function_.call_bytes;
    for (Place* const place : passed) {
      place->address += area;
    }
  }
}

Slot Layout::frame_address(std::uint64_t offset, int bits) {
  Slot& slot = frame_addresses_.try_emplace({offset, bits}, kNoSlot).first->second;
  if (slot == kNoSlot) {
    slot = shared_.allocate_slot(bits);
  }
  return slot;
}

const Place* Layout::find_place(const syntax::Operand& operand) const {
  return operand.index >= 0 ? &places_[static_cast<std::size_t>(operand.index)]
                            : shared_.find_place(operand.name);
}

PassedValue Layout::passed_symbol(std::size_t symbol) const {
  const syntax::Variable& variable = function_.symbol(symbol);
  if (variable.space == Space::kRegister) {
    return {.slot = slot_of(static_cast<int>(variable.offset)), .bytes = variable.bytes};
  }
  return {.offset = places_[symbol].address, .bytes = variable.bytes};
}

FunctionCode Layout::describe(std::int32_t entry) const {
  FunctionCode code{.function = &function_,
                    .entry = entry,
                    .frame_bytes = frame_bytes_,
                    .frame_alignment = frame_alignment_};
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const int bits = function_.registers[i].bits;
    code.registers.push_back({.slot = slots_[i], .bits = bits});
    code.register_bytes += static_cast<std::size_t>(std::max(bits / 8, 1));
  }
  for (const auto& [address, slot] : frame_addresses_) {
    code.addresses.push_back({.slot = slot, .bits = address.second, .offset = address.first});
  }
  if (!function_.is_kernel) {
    for (std::size_t i = 0; i < function_.parameters.size(); ++i) {
      code.parameters.push_back(passed_symbol(i));
    }
    for (std::size_t i = 0; i < function_.results.size(); ++i) {
      code.results.push_back(passed_symbol(function_.parameters.size() + i));
    }
  }
  return code;
}

}  // namespace emu
