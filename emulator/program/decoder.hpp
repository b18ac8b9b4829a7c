// Decoder of one instruction: its modifiers, and the registers of its operands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/program/program.hpp"
#include "emulator/syntax/module.hpp"
#include "emulator/syntax/types.hpp"

namespace emu {

class Layout;

class Decoder {
 public:
  Decoder(Layout& layout, const syntax::Instruction& instruction, Op& op);

  [[nodiscard]] std::string_view mnemonic() const { return mnemonic_; }
  [[nodiscard]] Op& op() { return op_; }
  [[nodiscard]] const syntax::Instruction& instruction() const { return instruction_; }
  /// Layout of the function that is decoded.
  [[nodiscard]] Layout& layout() { return layout_; }
  /// The call that the operation makes.
  [[nodiscard]] const Call& call() const;
  [[noreturn]] void fail(std::string_view reason) const;

  /// Takes a modifier, at any position; true if it was present.
  bool take(std::string_view modifier);
  /// Takes the one of these modifiers that is present, and returns its name or its index; fails if
  /// none is.
  std::string_view take_one_of(std::initializer_list<std::string_view> modifiers);
  std::size_t take_index_of(std::span<const std::string_view> modifiers);
  /// Takes the first of these modifiers that is present; true if one is.
  bool take_any_of(std::initializer_list<std::string_view> modifiers) {
    return std::ranges::any_of(modifiers,
                               [&](std::string_view modifier) { return take(modifier); });
  }
  void require(std::string_view modifier);
  /// Takes the first modifier that is a type.
  Type take_type();
  /// Returns the first modifier that is a type, without taking it.
  [[nodiscard]] std::optional<Type> peek_type() const;
  /// Fails if a modifier has not been taken.
  void finish() const;

  void expect_operands(std::size_t minimum, std::size_t maximum) const;
  void expect_operands(std::size_t count) const { expect_operands(count, count); }
  [[nodiscard]] const syntax::Operand& operand(std::size_t index) const;
  /// Returns the parts of an operand {a, b, ...}, or a single operand; fails unless there are
  /// `count`.
  [[nodiscard]] std::span<const syntax::Operand> parts(std::size_t index, std::size_t count) const;

  /// Appends a slot to the operation's slots.
  void add(Slot slot);
  /// Adds a destination of `bits` bits and sources; fails if the instruction has other operands.
  void add_operands(int bits, const std::vector<Type>& sources);
  /// Appends a destination to the operation's list; fails if it is in the list already.
  void add_result(const syntax::Operand& operand, int bits);
  /// Returns the slot of a source: a register of the type's size, or a constant of the type.
  [[nodiscard]] Slot source(const syntax::Operand& operand, Type type) const;
  [[nodiscard]] Slot source(std::size_t index, Type type) const {
    return source(operand(index), type);
  }
  [[nodiscard]] Slot destination(const syntax::Operand& operand, int bits) const;
  [[nodiscard]] Slot destination(std::size_t index, int bits) const {
    return destination(operand(index), bits);
  }
  /// Returns the slot of a predicate operand; sets `is_negated` if the operand is !p.
  [[nodiscard]] Slot predicate(const syntax::Operand& operand, bool& is_negated) const;
  /// Adds the slot of a predicate operand; true if the operand is !p.
  bool add_predicate(std::size_t index) {
    bool is_negated = false;
    add(predicate(operand(index), is_negated));
    return is_negated;
  }
  /// Returns the slot of the carry of extended-precision arithmetic, a predicate.
  [[nodiscard]] Slot carry() const;
  /// Returns the size of a register operand in bits; for other operands, that of the type.
  [[nodiscard]] int register_bits(const syntax::Operand& operand, Type type) const;
  /// Decodes an address whose base is a register, or a constant for a symbol or number.
  [[nodiscard]] AddressOperand address(const syntax::Operand& operand) const;
  /// Adds the slot of an address operand.
  AddressOperand add_address(std::size_t index) {
    const AddressOperand added = address(operand(index));
    add(added.slot);
    return added;
  }
  /// Whether an address with .param is in local memory, where the parameters of functions and the
  /// arguments of calls are, rather than among the kernel's parameters.
  [[nodiscard]] bool is_local_parameter(std::size_t index) const;
  /// Returns the size of an argument or result of a call by itself.
  [[nodiscard]] std::size_t passed_bytes(const syntax::Operand& operand) const;
  /// Returns an argument or result of a call, which has this size.
  [[nodiscard]] PassedValue passed_value(const syntax::Operand& operand, std::size_t bytes,
                                         bool is_result) const;
  /// Returns the value of an operand that must be an integer literal.
  [[nodiscard]] std::int64_t immediate(std::size_t index) const;
  /// Returns the value of an operand that must be an integer literal from 0 to 255.
  [[nodiscard]] std::uint8_t small_immediate(std::size_t index) const;

 private:
  [[nodiscard]] Slot special(const syntax::Operand& operand, int bits) const;
  /// Fails for -r and for a part of a register, r.h1.
  void require_whole(const syntax::Operand& operand) const;

  Layout& layout_;
  const syntax::Instruction& instruction_;
  Op& op_;
  std::string_view mnemonic_;
  std::vector<std::string_view> modifiers_;
  std::size_t added_ = 0;
};

/// Row of the table of operations: a mnemonic and the function that decodes its instructions.
struct Operation {
  std::string_view mnemonic;
  void (*decode)(Decoder& decoder);
};

/// Decodes bra, brx, ret, exit and call; false for other instructions. `functions` has the numbers
/// of the functions that the kernel may call.
bool decode_control(Decoder& decoder,
                    const std::map<std::string, std::int32_t, std::less<>>& functions,
                    FindOperation find_operation);

/// Sets `join` of every branch to its immediate post-dominator, the first operation that all lanes
/// reach on either path. Targets are those of the function alone.
void find_joins(std::span<Op> ops, std::span<const std::vector<std::int32_t>> branch_targets);
/// Numbers the registers that asynchronous matrix products use after issue, and lists them for
/// every operation that accesses some. `slot_of` returns the slot of a register of an operation's
/// function by its index.
void number_async_registers(Program& program,
                            const std::function<Slot(const Op& op, int index)>& slot_of);

}  // namespace emu
