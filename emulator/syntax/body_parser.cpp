// Body parser: reads the statements of a function, and resolves the names in them.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emulator/syntax/declarations.hpp"
#include "emulator/syntax/limits.hpp"
#include "emulator/syntax/module.hpp"
#include "fovea_emulator/error.hpp"

namespace emu::syntax {
namespace {

class BodyParser : DeclarationReader {
 public:
  BodyParser(const Module& module, const Function& function, MemoryCharge& memory)
      : DeclarationReader(function.body.text, function.body.line, memory),
        module_(module),
        function_(function) {}

  Function run() {
    scopes_.assign(1, Scope{});
    add_parameters();
    while (lexer_.peek().kind != TokenKind::kEnd) {
      if (depth_ > kMaxBlockDepth) {
        fail(lexer_.peek(), fmt::format("expected at most {} nested blocks", kMaxBlockDepth));
      }
      read_statement();
    }
    resolve_names();
    return std::move(function_);
  }

 private:
  // What a name in a scope stands for.
  struct Name {
    OperandKind kind = OperandKind::kLabel;
    int index = 0;
  };
  // Scope of a block { }: its names, and those of the enclosing blocks.
  struct Scope {
    int parent = -1;
    std::size_t call_bytes = 0;  // end of the .param of calls that are in use
    std::map<std::string, int, std::less<>> registers{};
    std::map<std::string, Name, std::less<>> names{};  // labels, variables and lists of targets
  };

  Scope& scope() { return scopes_[static_cast<std::size_t>(scope_)]; }

  // Adds the function's parameters and results to the names of its body.
  void add_parameters() {
    const std::size_t count = function_.parameters.size() + function_.results.size();
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_result = i >= function_.parameters.size();
      Variable& variable =
          is_result ? function_.results[i - function_.parameters.size()] : function_.parameters[i];
      if (variable.space == Space::kRegister) {
        variable.offset = function_.registers.size();
        add_register(lexer_.peek(), variable.name, static_cast<int>(8 * variable.bytes));
      } else {
        scope().names.insert_or_assign(variable.name,
                                       Name{OperandKind::kSymbol, static_cast<int>(i)});
      }
    }
  }

  void read_statement() {
    const Token token = lexer_.take();
    if (token.is('{')) {
      charge_memory(kBlockBytes);
      ++depth_;
      scopes_.push_back(Scope{.parent = scope_, .call_bytes = scope().call_bytes});
      scope_ = static_cast<int>(scopes_.size()) - 1;
    } else if (token.is('}')) {
      if (scope_ == 0) {
        fail(token, "expected an instruction");
      }
      --depth_;
      scope_ = scope().parent;
    } else if (token.is('@')) {
      Instruction instruction;
      instruction.is_guard_negated = take_if('!');
      const Token guard = lexer_.take();
      instruction.guard = find_register(guard.text);
      if (instruction.guard < 0 || register_at(instruction.guard).bits != 1) {
        fail(guard, "expected a predicate");
      }
      read_instruction(std::move(instruction), lexer_.take());
    } else if (token.kind == TokenKind::kWord && token.text[0] == '.') {
      read_body_directive(token);
    } else if (token.kind == TokenKind::kWord && take_if(':')) {
      read_label(token);
    } else if (!token.is(';')) {
      read_instruction(Instruction{}, token);
    }
  }

  // Reads what follows a name and ':', which may be a list of targets.
  void read_label(const Token& label) {
    charge_memory(kNameBytes);
    const std::string_view next = lexer_.peek().text;
    if (next == ".branchtargets") {
      lexer_.take();
      add_name(label, {OperandKind::kTargets, static_cast<int>(target_lists_.size())});
      TargetList& list =
          target_lists_.emplace_back(TargetList{.scope = scope_, .line = label.line});
      do {
        charge_memory(kNameBytes);
        list.labels.push_back(expect_word());
      } while (take_if(','));
      expect(';');
    } else if (next == ".callprototype" || next == ".calltargets") {
      add_name(label, {OperandKind::kPrototype, 0});
      skip_to(';');
    } else {
      add_name(label, {OperandKind::kLabel, static_cast<int>(function_.instructions.size())});
    }
  }

  void add_name(const Token& token, Name name) {
    if (!scope().names.emplace(token.text, name).second) {
      fail(token, name.kind == OperandKind::kSymbol ? "duplicate variable" : "duplicate label");
    }
  }

  void read_body_directive(const Token& token) {
    if (token.text == ".reg") {
      read_registers();
    } else if (token.text == ".loc") {
      read_source();
    } else if (token.text == ".pragma") {
      skip_to(';');
    } else if (token.text == ".shared" || token.text == ".local" || token.text == ".param") {
      for (Variable& variable : read_variables(token.text)) {
        add_variable(token, std::move(variable));
      }
    } else if (token.text != ".extern") {
      fail(token, "unsupported directive");
    }
  }

  // Reads a .loc. The call in whose place it was inlined is the last one above at that position:
  // compilers write the .loc of a call before those of what is inlined there.
  void read_source() {
    const SourceDirective directive = read_place();
    source_ = {.position = directive.position};
    if (directive.inlined_at) {
      const auto [call, is_unknown] = last_places_.try_emplace(
          *directive.inlined_at, SourcePlace{.position = *directive.inlined_at});
      source_.caller = number_of_call(call->second);
    }
    if (last_places_.insert_or_assign(source_.position, source_).second) {
      charge_memory(kPlaceBytes);
    }
  }

  // Returns the number of a call in Function::calls, to which it is added when it is another one
  // than the last at its position.
  int number_of_call(const SourcePlace& call) {
    std::vector<SourcePlace>& calls = function_.calls;
    const auto [last, is_new] = last_calls_.try_emplace(call.position, 0);
    if (is_new || calls[static_cast<std::size_t>(last->second)].caller != call.caller) {
      charge_memory(kPlaceBytes);
      last->second = static_cast<int>(calls.size());
      calls.push_back(call);
    }
    return last->second;
  }

  void add_variable(const Token& token, Variable variable) {
    if (!variable.refusal.empty()) {
      throw Error(variable.refusal);
    }
    if (variable.space == Space::kParameter) {
      variable.offset = align_up(scope().call_bytes, variable.alignment);
      scope().call_bytes = variable.offset + variable.bytes;
      function_.call_bytes = std::max(function_.call_bytes, scope().call_bytes);
      if (function_.call_bytes > kMaxLocalBytes) {
        fail(token, fmt::format("the arguments must have at most {} bytes", kMaxLocalBytes));
      }
    }
    const auto number = static_cast<int>(function_.symbol_count());
    if (!scope().names.emplace(variable.name, Name{OperandKind::kSymbol, number}).second) {
      fail(token, fmt::format("duplicate variable {}", variable.name));
    }
    function_.variables.push_back(std::move(variable));
  }

  void read_registers() {
    const Token type = lexer_.take();
    const auto bits = bits_of_type(type.text);
    if (!bits) {
      fail(type, "expected a register's type");
    }
    do {
      const Token name = lexer_.peek();
      const std::string stem = expect_word();
      if (take_if('<')) {
        const std::uint64_t count = expect_integer();
        expect('>');
        for (std::uint64_t i = 0; i < count; ++i) {
          add_register(name, fmt::format("{}{}", stem, i), *bits);
        }
      } else {
        add_register(name, stem, *bits);
      }
    } while (take_if(','));
    expect(';');
  }

  void add_register(const Token& token, std::string name, int bits) {
    charge_memory(kRegisterBytes + name.size());
    const auto index = static_cast<int>(function_.registers.size());
    if (!scope().registers.emplace(name, index).second) {
      fail(token, fmt::format("duplicate register {}", name));
    }
    function_.registers.push_back({.name = std::move(name), .bits = bits});
  }

  void read_instruction(Instruction instruction, const Token& opcode) {
    if (opcode.kind != TokenKind::kWord) {
      fail(opcode, "expected an instruction");
    }
    charge_memory(kInstructionBytes);
    instruction.opcode = opcode.text;
    instruction.line = opcode.line;
    instruction.source = source_;
    while (!lexer_.peek().is(';')) {
      instruction.operands.push_back(read_operand(0));
      if (!lexer_.peek().is(';')) {
        expect(',');
      }
    }
    expect(';');
    function_.instructions.push_back(std::move(instruction));
  }

  // `depth` is the number of enclosing operands.
  Operand read_operand(int depth) {
    Operand first = read_simple_operand(depth);
    if (!take_if('|')) {
      return first;
    }
    Operand pair{.kind = OperandKind::kPair};
    pair.parts.push_back(std::move(first));
    pair.parts.push_back(read_simple_operand(depth));
    return pair;
  }

  Operand read_simple_operand(int depth) {
    const Token token = lexer_.take();
    if (depth > kMaxOperandDepth) {
      fail(token, fmt::format("expected at most {} nested operands", kMaxOperandDepth));
    }
    charge_memory(kOperandBytes);
    Operand operand;
    if (token.is('{')) {
      operand.kind = OperandKind::kVector;
      do {
        operand.parts.push_back(read_operand(depth + 1));
      } while (take_if(','));
      expect('}');
    } else if (token.is('(')) {
      operand.kind = OperandKind::kList;
      while (!take_if(')')) {
        operand.parts.push_back(read_operand(depth + 1));
        if (!lexer_.peek().is(')')) {
          expect(',');
        }
      }
    } else if (token.is('[')) {
      operand.kind = OperandKind::kAddress;
      operand.parts.push_back(read_operand(depth + 1));
      std::swap(operand.offset, operand.parts[0].offset);
      while (take_if(',')) {
        operand.parts.push_back(read_operand(depth + 1));
      }
      expect(']');
    } else if (token.is('!')) {
      operand = read_simple_operand(depth + 1);
      operand.is_negated = true;
    } else if (token.is('-')) {
      operand = read_simple_operand(depth + 1);
      if (operand.kind == OperandKind::kInteger) {
        operand.bits = std::uint64_t{0} - operand.bits;
      } else if (operand.kind == OperandKind::kFloat) {
        operand.bits ^= std::uint64_t{1} << 63U;
      } else if (operand.kind == OperandKind::kRegister && !operand.has_minus) {
        operand.has_minus = true;
      } else {
        fail(token, "a minus sign is allowed before numbers and registers only");
      }
    } else if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
               token.kind == TokenKind::kSingle) {
      operand.kind = token.kind == TokenKind::kInteger ? OperandKind::kInteger
                     : token.kind == TokenKind::kFloat ? OperandKind::kFloat
                                                       : OperandKind::kSingle;
      operand.bits = token.bits;
    } else if (token.kind == TokenKind::kWord) {
      operand = read_named(token);
    } else {
      fail(token, "expected an operand");
    }
    return operand;
  }

  Operand read_named(const Token& token) {
    Operand operand;
    operand.name = token.text;
    if (token.text == "_") {
      operand.kind = OperandKind::kSink;
    } else if (token.text == "WARP_SZ") {
      operand.kind = OperandKind::kInteger;
      operand.bits = 32;
    } else if (const int entry = find_register(token.text); entry >= 0) {
      operand.kind = OperandKind::kRegister;
      operand.index = entry;
    } else if (const std::size_t point = token.text.rfind('.');
               point != std::string_view::npos && find_register(token.text.substr(0, point)) >= 0) {
      operand.kind = OperandKind::kRegister;
      operand.index = find_register(token.text.substr(0, point));
      operand.selector = token.text.substr(point + 1);
    } else if (token.text[0] == '%') {
      operand.kind = OperandKind::kSpecial;
    } else {
      operand.kind = OperandKind::kSymbol;  // a label becomes kLabel once all labels are known
      operand.index = scope_;
    }
    if (take_if('+')) {
      operand.offset = expect_signed();
    } else if (operand.kind != OperandKind::kSink && lexer_.peek().is('-')) {
      operand.offset = expect_signed();
    }
    if (operand.kind == OperandKind::kInteger) {
      operand.bits += static_cast<std::uint64_t>(std::exchange(operand.offset, 0));
    }
    return operand;
  }

  [[nodiscard]] int find_register(std::string_view name) const {
    for (int scope = scope_; scope >= 0; scope = scopes_[static_cast<std::size_t>(scope)].parent) {
      const auto& registers = scopes_[static_cast<std::size_t>(scope)].registers;
      if (const auto entry = registers.find(name); entry != registers.end()) {
        return entry->second;
      }
    }
    return -1;
  }

  [[nodiscard]] const Register& register_at(int index) const {
    return function_.registers[static_cast<std::size_t>(index)];
  }

  void resolve_names() {
    for (Instruction& instruction : function_.instructions) {
      for (Operand& operand : instruction.operands) {
        resolve(operand, instruction);
      }
    }
    for (const TargetList& list : target_lists_) {
      std::vector<int>& targets = function_.branch_targets.emplace_back();
      for (const std::string& label : list.labels) {
        const Name* const name = find_name(list.scope, label);
        if (name == nullptr || name->kind != OperandKind::kLabel) {
          throw Error(fmt::format("line {}: there is no label '{}'", list.line, label));
        }
        targets.push_back(name->index);
      }
    }
  }

  [[nodiscard]] const Name* find_name(int scope, std::string_view name) const {
    for (; scope >= 0; scope = scopes_[static_cast<std::size_t>(scope)].parent) {
      const auto& names = scopes_[static_cast<std::size_t>(scope)].names;
      if (const auto entry = names.find(name); entry != names.end()) {
        return &entry->second;
      }
    }
    return nullptr;
  }

  void resolve(Operand& operand, const Instruction& instruction) {
    for (Operand& part : operand.parts) {
      resolve(part, instruction);
    }
    if (operand.kind != OperandKind::kSymbol) {
      return;
    }
    if (const Name* const name = find_name(operand.index, operand.name); name != nullptr) {
      operand.kind = name->kind;
      operand.index = name->index;
      if (name->kind == OperandKind::kTargets) {
        charge_memory(kTargetBytes *
                      target_lists_[static_cast<std::size_t>(name->index)].labels.size());
      }
      return;
    }
    operand.index = -1;
    if (!module_.variable_numbers.contains(operand.name) &&
        module_.find_function(operand.name) == nullptr) {
      throw Error(fmt::format("line {}: there is no register, variable or label '{}'",
                              instruction.line, operand.name));
    }
  }

  // Labels of a .branchtargets, in this scope.
  struct TargetList {
    int scope = 0;
    int line = 0;
    std::vector<std::string> labels{};
  };

  const Module& module_;
  Function function_;
  std::vector<Scope> scopes_;
  int scope_ = 0;
  int depth_ = 1;
  std::vector<TargetList> target_lists_;
  SourcePlace source_;                                   // of the last .loc
  std::map<SourcePosition, SourcePlace> last_places_{};  // the last one at each position
  std::map<SourcePosition, int> last_calls_{};           // numbers of the last ones that were added
};

}  // namespace

Function parse_body(const Module& module, const Function& function, MemoryCharge& memory) {
  return BodyParser(module, function, memory).run();
}

}  // namespace emu::syntax
