// Decodes a kernel into a Program.
#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/program/decoder.hpp"
#include "emulator/program/layout.hpp"
#include "emulator/program/reachable.hpp"
#include "emulator/syntax/limits.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

using syntax::Operand;
using syntax::OperandKind;

}  // namespace

Decoder::Decoder(Layout& layout, const syntax::Instruction& instruction, Op& op)
    : layout_(layout), instruction_(instruction), op_(op) {
  std::string_view rest = instruction.opcode;
  const auto next = [&] {
    const std::size_t point = rest.find('.');
    const std::string_view word = rest.substr(0, point);
    rest = point == std::string_view::npos ? std::string_view() : rest.substr(point + 1);
    return word;
  };
  mnemonic_ = next();
  while (!rest.empty()) {
    modifiers_.push_back(next());
  }
}

void Decoder::fail(std::string_view reason) const {
  throw Error(fmt::format("line {}: {}: {}", instruction_.line, instruction_.opcode, reason));
}

bool Decoder::take(std::string_view modifier) {
  const auto entry = std::ranges::find(modifiers_, modifier);
  if (entry == modifiers_.end()) {
    return false;
  }
  modifiers_.erase(entry);
  return true;
}

std::string_view Decoder::take_one_of(std::initializer_list<std::string_view> modifiers) {
  return std::data(modifiers)[take_index_of({std::data(modifiers), modifiers.size()})];
}

std::size_t Decoder::take_index_of(std::span<const std::string_view> modifiers) {
  for (std::size_t i = 0; i < modifiers.size(); ++i) {
    if (take(modifiers[i])) {
      return i;
    }
  }
  fail(fmt::format("expected one of .{}", fmt::join(modifiers, ", .")));
}

void Decoder::require(std::string_view modifier) {
  if (!take(modifier)) {
    fail(fmt::format("expected .{}", modifier));
  }
}

Type Decoder::take_type() {
  for (const std::string_view modifier : modifiers_) {
    if (const auto type = find_type(modifier)) {
      take(modifier);
      return *type;
    }
  }
  fail("expected a type");
}

std::optional<Type> Decoder::peek_type() const {
  for (const std::string_view modifier : modifiers_) {
    if (const auto type = find_type(modifier)) {
      return type;
    }
  }
  return std::nullopt;
}

void Decoder::finish() const {
  if (!modifiers_.empty()) {
    fail(fmt::format("unsupported modifier .{}", modifiers_.front()));
  }
}

void Decoder::expect_operands(std::size_t minimum, std::size_t maximum) const {
  const std::size_t count = instruction_.operands.size();
  if (count < minimum || count > maximum) {
    fail(minimum == maximum
             ? fmt::format("expected {} operand{}, got {}", minimum, minimum == 1 ? "" : "s", count)
             : fmt::format("expected {} to {} operands, got {}", minimum, maximum, count));
  }
}

const Operand& Decoder::operand(std::size_t index) const {
  if (index >= instruction_.operands.size()) {
    fail("an operand is missing");
  }
  return instruction_.operands[index];
}

std::span<const Operand> Decoder::parts(std::size_t index, std::size_t count) const {
  const Operand& whole = operand(index);
  const std::span<const Operand> parts =
      whole.kind == OperandKind::kVector ? std::span(whole.parts) : std::span(&whole, 1);
  if (parts.size() != count) {
    fail(fmt::format("operand {} must have {} registers, not {}", index + 1, count, parts.size()));
  }
  return parts;
}

void Decoder::add(Slot slot) {
  if (added_ == op_.slots.size()) {
    fail("too many operands");
  }
  op_.slots[added_++] = slot;
}

void Decoder::add_operands(int bits, const std::vector<Type>& sources) {
  expect_operands(sources.size() + 1);
  add(destination(0, bits));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    add(source(i + 1, sources[i]));
  }
}

void Decoder::add_result(const Operand& operand, int bits) {
  op_.list.push_back(destination(operand, bits));
  if (std::ranges::count(op_.list, op_.list.back()) > 1) {
    fail(fmt::format("{} is used twice as a destination", operand.name));
  }
}

void Decoder::require_whole(const Operand& operand) const {
  if (operand.has_minus || !operand.selector.empty()) {
    fail("this instruction takes no minus sign before a register and no part of one");
  }
  if (operand.offset != 0 && operand.kind != OperandKind::kSymbol) {
    fail(fmt::format("nothing can be added to {} here", operand.name));
  }
}

Slot Decoder::source(const Operand& operand, Type type) const {
  const int bits = bits_of(type);
  if (operand.is_negated) {
    fail("'!' is allowed before predicates only");
  }
  require_whole(operand);
  switch (operand.kind) {
    case OperandKind::kRegister:
      if (layout_.bits_of(operand.index) != bits) {
        fail(fmt::format("{} is not a register of {} bits", operand.name, bits));
      }
      return layout_.slot_of(operand.index);
    case OperandKind::kSpecial:
      return special(operand, bits);
    case OperandKind::kInteger:
      if (is_float(type)) {
        fail("an integer constant cannot be used as a float");
      }
      if (bits > 64) {
        fail("a constant has at most 64 bits");
      }
      return layout_.constant(
          bits == 64 ? operand.bits : operand.bits & ((std::uint64_t{1} << bits) - 1), bits);
    case OperandKind::kSingle:
      if (type != Type::kF32 && type != Type::kB32) {
        fail("a constant 0f... requires a type of 32 bits");
      }
      return layout_.constant(operand.bits, 32);
    case OperandKind::kFloat:
      if (type == Type::kF64 || type == Type::kB64) {
        return layout_.constant(operand.bits, 64);
      }
      if (type == Type::kF32) {
        const auto value = static_cast<float>(std::bit_cast<double>(operand.bits));
        return layout_.constant(std::bit_cast<std::uint32_t>(value), 32);
      }
      fail("a float constant cannot be used as an integer");
    case OperandKind::kSymbol: {
      const Place* const place = layout_.find_place(operand);
      if (place == nullptr || place->space == syntax::Space::kRegister || is_float(type) ||
          bits < 32 || bits > 64) {
        fail(fmt::format("unsupported operand {}", operand.name));
      }
      if (place->is_in_frame) {
        return layout_.frame_address(place->address + static_cast<std::uint64_t>(operand.offset),
                                     bits);
      }
      return layout_.constant(place->address + static_cast<std::uint64_t>(operand.offset), bits,
                              place->space == syntax::Space::kShared);
    }
    default:
      fail("unsupported operand");
  }
}

Slot Decoder::special(const Operand& operand, int bits) const {
  const auto name = find_special_register(operand.name);
  if (!name || bits > name->bits || (bits == 1) != (name->bits == 1)) {
    fail(fmt::format("unsupported special register {}", operand.name));
  }
  return layout_.special(*name, bits);
}

Slot Decoder::destination(const Operand& operand, int bits) const {
  require_whole(operand);
  if (operand.kind != OperandKind::kRegister || layout_.bits_of(operand.index) != bits) {
    fail(fmt::format("expected a register of {} bits for the result", bits));
  }
  return layout_.slot_of(operand.index);
}

Slot Decoder::predicate(const Operand& operand, bool& is_negated) const {
  is_negated = operand.is_negated;
  require_whole(operand);
  if (operand.kind == OperandKind::kRegister && layout_.bits_of(operand.index) == 1) {
    return layout_.slot_of(operand.index);
  }
  if (operand.kind == OperandKind::kInteger) {
    return layout_.constant(operand.bits != 0 ? 1 : 0, 1);
  }
  if (operand.kind == OperandKind::kSpecial) {
    return special(operand, 1);
  }
  fail("expected a predicate");
}

Slot Decoder::carry() const {
  return layout_.shared().carry();
}

int Decoder::register_bits(const Operand& operand, Type type) const {
  return operand.kind == OperandKind::kRegister ? layout_.bits_of(operand.index) : bits_of(type);
}

AddressOperand Decoder::address(const Operand& operand) const {
  if (operand.kind != OperandKind::kAddress || operand.parts.size() != 1) {
    fail("expected [an address]");
  }
  const Operand& base = operand.parts[0];
  require_whole(base);
  if (base.kind == OperandKind::kRegister) {
    const int bits = layout_.bits_of(base.index);
    if (bits < 32) {
      fail("an address must have 32 or 64 bits");
    }
    return {.slot = layout_.slot_of(base.index),
            .bits = static_cast<std::uint8_t>(bits),
            .offset = operand.offset};
  }
  if (base.kind == OperandKind::kInteger || base.kind == OperandKind::kSymbol) {
    return {.slot = source(base, Type::kB64), .bits = 64, .offset = operand.offset};
  }
  fail("expected an address in a register or a variable's name");
}

bool Decoder::is_local_parameter(std::size_t index) const {
  const Operand& address = operand(index);
  if (address.kind != OperandKind::kAddress || address.parts.empty()) {
    return false;
  }
  const Operand& base = address.parts.front();
  const Place* const place = base.kind == OperandKind::kSymbol ? layout_.find_place(base) : nullptr;
  return place != nullptr ? place->space == syntax::Space::kLocal : !layout_.function().is_kernel;
}

std::size_t Decoder::passed_bytes(const Operand& operand) const {
  if (operand.kind == OperandKind::kSymbol && operand.index >= 0) {
    return layout_.function().symbol(static_cast<std::size_t>(operand.index)).bytes;
  }
  if (operand.kind != OperandKind::kRegister) {
    fail("expected a register or .param");
  }
  return static_cast<std::size_t>(layout_.bits_of(operand.index)) / 8;
}

PassedValue Decoder::passed_value(const Operand& operand, std::size_t bytes, bool is_result) const {
  if (operand.kind == OperandKind::kSink && is_result) {
    return {};
  }
  if (operand.kind == OperandKind::kSymbol && operand.index >= 0) {
    const auto symbol = static_cast<std::size_t>(operand.index);
    const Place* const place = layout_.find_place(operand);
    if (place->space == syntax::Space::kLocal &&
        layout_.function().symbol(symbol).space == syntax::Space::kParameter &&
        layout_.function().symbol(symbol).bytes == bytes) {
      return layout_.passed_symbol(symbol);
    }
  } else if (bytes == 2 || bytes == 4 || bytes == 8) {
    const int bits = static_cast<int>(bytes) * 8;
    return {.slot = is_result ? destination(operand, bits) : source(operand, bit_type(bits)),
            .bytes = bytes};
  }
  fail(fmt::format("expected a register or .param of {} bytes for {}", bytes,
                   is_result ? "a result" : "an argument"));
}

std::int64_t Decoder::immediate(std::size_t index) const {
  if (operand(index).kind != OperandKind::kInteger) {
    fail("expected an integer");
  }
  return static_cast<std::int64_t>(operand(index).bits);
}

std::uint8_t Decoder::small_immediate(std::size_t index) const {
  constexpr std::int64_t kMax = std::numeric_limits<std::uint8_t>::max();
  const std::int64_t value = immediate(index);
  if (value < 0 || value > kMax) {
    fail(fmt::format("expected an integer from 0 to {}", kMax));
  }
  return static_cast<std::uint8_t>(value);
}

namespace {

void decode_operation(Decoder& decoder, const Reachable& reachable, FindOperation find_operation) {
  if (decode_control(decoder, reachable.numbers, find_operation)) {
    return;
  }
  const Operation* const operation = find_operation(decoder.mnemonic());
  if (operation == nullptr) {
    decoder.fail("unsupported instruction");
  }
  operation->decode(decoder);
  decoder.finish();
}

// Ends a function whose last instruction is a call that does not return.
void end_after_call(std::vector<Op>& ops, const syntax::Function& function) {
  if (!ops.empty() && ops.back().instruction->opcode.starts_with("call")) {
    ops.push_back({.flow = function.is_kernel ? Flow::kExit : Flow::kReturn,
                   .instruction = ops.back().instruction});
  }
  if (ops.empty() || ops.back().flow == Flow::kNext || ops.back().flow == Flow::kCall ||
      ops.back().guard != kNoSlot) {
    throw Error(
        fmt::format("line {}: {} ends without ret or a branch", function.line, function.name));
  }
}

// Decodes the operations of a function; their targets are those of the function alone.
std::vector<Op> decode_function(Layout& layout, const Reachable& reachable,
                                FindOperation find_operation) {
  const syntax::Function& function = layout.function();
  std::vector<Op> ops;
  ops.reserve(function.instructions.size() + 1);
  for (const syntax::Instruction& instruction : function.instructions) {
    Op& op = ops.emplace_back();
    op.instruction = &instruction;
    if (instruction.guard >= 0) {
      op.guard = layout.slot_of(instruction.guard);
      op.is_guard_negated = instruction.is_guard_negated;
    }
    Decoder decoder(layout, instruction, op);
    decode_operation(decoder, reachable, find_operation);
  }
  end_after_call(ops, function);
  find_joins(ops, function.branch_targets);
  return ops;
}

// Appends the operations of a function to the program's.
void append_function(Program& program, const syntax::Function& function, std::vector<Op> ops) {
  const auto first = static_cast<std::int32_t>(program.ops.size());
  const auto first_list = static_cast<std::int32_t>(program.branch_targets.size());
  for (Op& op : ops) {
    op.target += op.flow == Flow::kBranch           ? first
                 : op.flow == Flow::kIndirectBranch ? first_list
                                                    : 0;
    op.join += op.join >= 0 ? first : 0;
    program.ops.push_back(std::move(op));
  }
  for (std::vector<std::int32_t> targets : function.branch_targets) {
    for (std::int32_t& target : targets) {
      target += first;
    }
    program.branch_targets.push_back(std::move(targets));
  }
}

}  // namespace

Program decode(const syntax::Module& module, const syntax::Function& kernel,
               const GlobalAddresses& global_addresses, FindOperation find_operation,
               syntax::MemoryCharge& memory) {
  Program program;
  program.module = &module;
  Reachable reachable = find_reachable(module, kernel, memory);
  program.bodies = std::move(reachable.functions);
  reachable.functions.clear();
  program.function = &program.bodies.front();
  ProgramLayout shared(module, program.bodies, reachable.variables, global_addresses, program);
  std::deque<Layout> layouts;
  std::size_t instructions = program.bodies.size();
  for (const syntax::Function& body : program.bodies) {
    layouts.emplace_back(shared, layouts.size(), body);
    instructions += body.instructions.size();
  }
  program.ops.reserve(instructions);
  std::vector<const Layout*> layout_of_op;
  for (Layout& layout : layouts) {
    const auto entry = static_cast<std::int32_t>(program.ops.size());
    append_function(program, layout.function(), decode_function(layout, reachable, find_operation));
    layout_of_op.resize(program.ops.size(), &layout);
    program.functions.push_back(layout.describe(entry));
  }
  program.local_bytes = program.functions.front().frame_bytes;
  for (const auto& [name, number] : reachable.numbers) {
    const auto address = global_addresses.find(name);
    if (number != 0 && address != global_addresses.end()) {  // a kernel, the first, has no address
      program.function_addresses.emplace(address->second, number);
    }
  }
  program.orders_clusters = std::ranges::any_of(program.ops, &Op::orders_clusters);
  number_async_registers(program, [&](const Op& op, int index) {
    return layout_of_op[static_cast<std::size_t>(&op - program.ops.data())]->slot_of(index);
  });
  return program;
}

}  // namespace emu
