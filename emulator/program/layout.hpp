// Layout of a kernel: the register file, and the places of variables, parameters and functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "emulator/program/program.hpp"
#include "emulator/syntax/module.hpp"

namespace emu {

/// What the functions of a program share: constants, special registers and the module's variables.
class ProgramLayout {
 public:
  /// Throws emu::Error if the variables take more local or shared memory than a GPU has.
  ProgramLayout(const syntax::Module& module, const std::deque<syntax::Function>& functions,
                const std::set<std::size_t>& variables, const GlobalAddresses& global_addresses,
                Program& program);

  Slot allocate_slot(int bits);
  Slot constant(std::uint64_t value, int bits, bool is_shared_address);
  /// Returns the slot of a special register's lowest bits.
  Slot special(SpecialRegisterName name, int bits);
  /// Returns the slot of the carry of extended-precision arithmetic, a predicate.
  Slot carry();
  [[nodiscard]] const Place* find_place(const std::string& name) const;
  /// Place of a .shared variable of a function, by the function's number and the variable's symbol.
  [[nodiscard]] Place shared_place(std::size_t function, std::size_t symbol) const {
    return shared_places_.at({function, symbol});
  }
  [[nodiscard]] Program& program() { return program_; }

 private:
  std::uint64_t place_shared(const syntax::Variable& variable);

  Program& program_;
  Slot carry_ = kNoSlot;
  std::map<std::tuple<int, std::uint64_t, bool>, Slot> constants_;
  std::map<std::tuple<SpecialKind, std::uint8_t, int>, Slot> specials_;
  std::map<std::string, Place, std::less<>> places_;
  std::map<std::pair<std::size_t, std::size_t>, Place> shared_places_;
};

/// Registers and symbols of one function.
class Layout {
 public:
  Layout(ProgramLayout& shared, std::size_t number, const syntax::Function& function);

  [[nodiscard]] const syntax::Function& function() const { return function_; }
  [[nodiscard]] Slot slot_of(int index) const { return slots_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] int bits_of(int index) const {
    return function_.registers[static_cast<std::size_t>(index)].bits;
  }
  Slot constant(std::uint64_t value, int bits, bool is_shared_address = false) {
    return shared_.constant(value, bits, is_shared_address);
  }
  Slot special(SpecialRegisterName name, int bits) { return shared_.special(name, bits); }
  /// Returns the slot of an address in the function's frame.
  Slot frame_address(std::uint64_t offset, int bits);
  /// Finds the place of a symbol; null if it has none.
  [[nodiscard]] const Place* find_place(const syntax::Operand& operand) const;
  /// Parameter or result of the function, or a variable of it that is passed to others.
  [[nodiscard]] PassedValue passed_symbol(std::size_t symbol) const;
  /// Describes the function when all of its operations are decoded.
  [[nodiscard]] FunctionCode describe(std::int32_t entry) const;
  [[nodiscard]] ProgramLayout& shared() { return shared_; }

 private:
  void place_symbols(std::size_t number);

  ProgramLayout& shared_;
  const syntax::Function& function_;
  std::vector<Slot> slots_;
  std::vector<Place> places_;  // of the function's symbols
  std::size_t frame_bytes_ = 0;
  std::size_t frame_alignment_ = 1;
  std::map<std::pair<std::uint64_t, int>, Slot> frame_addresses_;
};

}  // namespace emu
