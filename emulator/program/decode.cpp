// Decodes a kernel into a Program.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/program/address_space.hpp"
#include "emulator/program/decoder.hpp"
#include "emulator/syntax/limits.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

using syntax::align_up;
using syntax::Operand;
using syntax::OperandKind;
using syntax::Space;

std::uint32_t register_words(int bits) {
  return bits == 1 ? 4 : static_cast<std::uint32_t>(bits) * kLanes / 32;  // a multiple of 16 bytes
}

bool is_special_register(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNumbers = {"%laneid", "%warpid", "%cluster_ctarank",
                                                        "%cluster_nctarank"};
  constexpr std::array<std::string_view, 8> kTriples = {
      "%tid",       "%ntid",       "%ctaid",         "%nctaid",
      "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"};
  if (std::ranges::find(kNumbers, name) != kNumbers.end()) {
    return true;
  }
  return (name.ends_with(".x") || name.ends_with(".y") || name.ends_with(".z")) &&
         std::ranges::find(kTriples, name.substr(0, name.size() - 2)) != kTriples.end();
}

}  // namespace

// Layout of the register file: registers, constants and the addresses of variables.
class Layout {
 public:
  Layout(const syntax::Module& module, const syntax::Function& function,
         const std::map<std::string, std::uint64_t, std::less<>>& global_addresses,
         Program& program)
      : function_(function), program_(program) {
    for (const syntax::Register& reg : function.registers) {
      slots_.push_back(allocate_slot(reg.bits));
    }
    for (const auto& [name, address] : global_addresses) {
      places_[name] = {Space::kGlobal, address};
    }
    for (const syntax::Variable& parameter : function.parameters) {
      places_[parameter.name] = {Space::kParameter, parameter.offset};
    }
    place_variables(module.variables);
    place_variables(function.variables);
    if (program.local_bytes > syntax::kMaxLocalBytes ||
        program.static_shared_bytes > syntax::kMaxSharedBytes) {
      throw Error(fmt::format(
          "line {}: {} has {} bytes of local and {} of shared memory; at most "
          "{} and {} are allowed",
          function.line, function.name, program.local_bytes, program.static_shared_bytes,
          syntax::kMaxLocalBytes, syntax::kMaxSharedBytes));
    }
    // Dynamic shared memory lies after all static variables.
    const std::size_t end =
        align_up(kReservedSharedBytes + program.static_shared_bytes, program.dynamic_alignment);
    for (const syntax::Variable& variable : module.variables) {
      if (variable.space == Space::kShared && variable.bytes == 0) {
        places_[variable.name] = {Space::kShared, end};
        program.shared.push_back(
            {.name = variable.name, .offset = end, .bytes = syntax::kMaxSharedBytes});
      }
    }
  }

  [[nodiscard]] Slot slot_of(int index) const { return slots_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] int bits_of(int index) const {
    return function_.registers[static_cast<std::size_t>(index)].bits;
  }

  [[nodiscard]] std::size_t instruction_count() const { return function_.instructions.size(); }

  Slot constant(std::uint64_t value, int bits, bool is_shared_address = false) {
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

  Slot special(const std::string& name) {
    const auto [entry, is_new] = specials_.try_emplace(name, kNoSlot);
    if (is_new) {
      entry->second = allocate_slot(32);
      program_.specials.push_back({.slot = entry->second, .name = name});
    }
    return entry->second;
  }

  [[nodiscard]] const Place* find_place(std::string_view name) const {
    const auto entry = places_.find(name);
    return entry == places_.end() ? nullptr : &entry->second;
  }

 private:
  Slot allocate_slot(int bits) {
    const Slot slot = program_.register_file_words + kHeaderWords;
    program_.register_file_words = slot + register_words(bits);
    return slot;
  }

  void place_variables(const std::vector<syntax::Variable>& variables) {
    for (const syntax::Variable& variable : variables) {
      if (variable.space == Space::kShared && variable.bytes == 0) {
        program_.dynamic_alignment = std::max(program_.dynamic_alignment, variable.alignment);
      } else if (variable.space == Space::kShared) {
        const std::size_t offset =
            align_up(kReservedSharedBytes + program_.static_shared_bytes, variable.alignment);
        program_.static_shared_bytes = offset + variable.bytes - kReservedSharedBytes;
        places_[variable.name] = {Space::kShared, offset};
        program_.shared.push_back(
            {.name = variable.name, .offset = offset, .bytes = variable.bytes});
      } else if (variable.space == Space::kLocal) {
        const std::size_t offset = align_up(program_.local_bytes, variable.alignment);
        program_.local_bytes = offset + variable.bytes;
        places_[variable.name] = {Space::kLocal, offset};
      }
    }
  }

  const syntax::Function& function_;
  Program& program_;
  std::vector<Slot> slots_;
  std::map<std::tuple<int, std::uint64_t, bool>, Slot> constants_;
  std::map<std::string, Slot> specials_;
  std::map<std::string, Place, std::less<>> places_;
};

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

Slot Decoder::source(const Operand& operand, Type type) const {
  const int bits = bits_of(type);
  if (operand.is_negated) {
    fail("'!' is allowed before predicates only");
  }
  switch (operand.kind) {
    case OperandKind::kRegister:
      if (layout_.bits_of(operand.index) != bits || operand.offset != 0) {
        fail(fmt::format("{} is not a register of {} bits", operand.name, bits));
      }
      return layout_.slot_of(operand.index);
    case OperandKind::kSpecial:
      if (!is_special_register(operand.name) || bits != 32) {
        fail(fmt::format("unsupported special register {}", operand.name));
      }
      return layout_.special(operand.name);
    case OperandKind::kInteger:
      if (is_float(type)) {
        fail("an integer constant cannot be used as a float");
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
      const Place* const place = layout_.find_place(operand.name);
      if (place == nullptr || is_float(type) || bits < 32) {
        fail(fmt::format("unsupported operand {}", operand.name));
      }
      return layout_.constant(place->address + static_cast<std::uint64_t>(operand.offset), bits,
                              place->space == Space::kShared);
    }
    default:
      fail("unsupported operand");
  }
}

Slot Decoder::destination(const Operand& operand, int bits) const {
  if (operand.kind != OperandKind::kRegister || layout_.bits_of(operand.index) != bits) {
    fail(fmt::format("expected a register of {} bits for the result", bits));
  }
  return layout_.slot_of(operand.index);
}

Slot Decoder::predicate(const Operand& operand, bool& is_negated) const {
  is_negated = operand.is_negated;
  if (operand.kind == OperandKind::kRegister && layout_.bits_of(operand.index) == 1) {
    return layout_.slot_of(operand.index);
  }
  if (operand.kind == OperandKind::kInteger) {
    return layout_.constant(operand.bits != 0 ? 1 : 0, 1);
  }
  fail("expected a predicate");
}

std::size_t Decoder::instruction_count() const {
  return layout_.instruction_count();
}

int Decoder::register_bits(const Operand& operand, Type type) const {
  return operand.kind == OperandKind::kRegister ? layout_.bits_of(operand.index) : bits_of(type);
}

AddressOperand Decoder::address(const Operand& operand) const {
  if (operand.kind != OperandKind::kAddress || operand.parts.size() != 1) {
    fail("expected [an address]");
  }
  const Operand& base = operand.parts[0];
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

void decode_flow(Decoder& decoder) {
  Op& op = decoder.op();
  if (decoder.mnemonic() == "bra") {
    decoder.take("uni");
    decoder.expect_operands(1);
    if (decoder.operand(0).kind != OperandKind::kLabel) {
      decoder.fail("expected a label");
    }
    if (static_cast<std::size_t>(decoder.operand(0).index) == decoder.instruction_count()) {
      decoder.fail("no instruction follows the label");
    }
    op.flow = Flow::kBranch;
    op.target = decoder.operand(0).index;
  } else {
    decoder.expect_operands(0);
    op.flow = Flow::kExit;  // calls are not supported, so a return ends the kernel
  }
  decoder.finish();
}

}  // namespace

Program decode(const syntax::Module& module, const syntax::Function& function,
               const std::map<std::string, std::uint64_t, std::less<>>& global_addresses,
               FindOperation find_operation) {
  Program program;
  program.module = &module;
  program.function = &function;
  Layout layout(module, function, global_addresses, program);
  program.ops.reserve(function.instructions.size() + 1);
  for (const syntax::Instruction& instruction : function.instructions) {
    Op& op = program.ops.emplace_back();
    op.instruction = &instruction;
    if (instruction.guard >= 0) {
      op.guard = layout.slot_of(instruction.guard);
      op.is_guard_negated = instruction.is_guard_negated;
    }
    Decoder decoder(layout, instruction, op);
    const std::string_view mnemonic = decoder.mnemonic();
    if (mnemonic == "bra" || mnemonic == "ret" || mnemonic == "exit") {
      decode_flow(decoder);
    } else if (const Operation* const operation = find_operation(mnemonic)) {
      operation->decode(decoder);
      decoder.finish();
    } else {
      decoder.fail("unsupported instruction");
    }
  }
  if (program.ops.empty() || program.ops.back().flow == Flow::kNext ||
      program.ops.back().guard != kNoSlot) {
    throw Error(
        fmt::format("line {}: {} ends without ret or a branch", function.line, function.name));
  }
  find_joins(program.ops);
  number_async_registers(program, [&](int index) { return layout.slot_of(index); });
  return program;
}

}  // namespace emu
