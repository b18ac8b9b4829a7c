// Parser: reads PTX text into a Module.
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "emulator/syntax/declarations.hpp"
#include "emulator/syntax/limits.hpp"
#include "emulator/syntax/module.hpp"
#include "fovea_emulator/error.hpp"

namespace emu::syntax {
namespace {

class Parser : DeclarationReader {
 public:
  using DeclarationReader::DeclarationReader;

  Module run() {
    while (lexer_.peek().kind != TokenKind::kEnd) {
      read_module_item();
    }
    if (module_.version_major == 0 || module_.target.empty()) {
      throw Error("this is not PTX: .version or .target is missing");
    }
    module_.memory_bytes = charged_memory();
    return std::move(module_);
  }

 private:
  // Scope of a block { }: its names, and those of the enclosing blocks.
  struct Scope {
    int parent = -1;
    std::map<std::string, int, std::less<>> registers{};
    std::map<std::string, int, std::less<>> labels{};  // index of the instruction after each label
  };

  void read_module_item() {
    const Token token = lexer_.take();
    const std::string_view word = token.text;
    if (token.kind != TokenKind::kWord) {
      fail(token, "expected a directive");
    }
    if (word == ".version") {
      read_version(module_);
    } else if (word == ".target") {
      module_.target = expect_word();
      while (take_if(',')) {
        expect_word();  // options such as "debug"
      }
    } else if (word == ".address_size") {
      if (const Token size = lexer_.peek(); expect_integer() != 64) {
        fail(size, "unsupported address size; expected 64");
      }
    } else if (word == ".file") {
      read_file(module_.files);
    } else if (word == ".section") {
      expect_word();
      skip_to('{');
      skip_to('}');
    } else if (word == ".visible" || word == ".extern" || word == ".weak") {
      // linkage has no effect here
    } else if (word == ".entry") {
      read_kernel(token.line);
    } else if (word == ".global" || word == ".const" || word == ".shared") {
      for (Variable& variable : read_variables(word)) {
        module_.variables.push_back(std::move(variable));
      }
    } else if (word == ".pragma") {
      skip_to(';');
    } else {
      fail(token, "unsupported directive");
    }
  }

  void read_kernel(int line) {
    function_ = Function{};
    function_.line = line;
    function_.name = expect_word();
    if (take_if('(')) {
      while (!take_if(')')) {
        read_parameter(function_);
        take_if(',');
      }
    }
    read_performance_directives(function_);
    if (take_if(';')) {
      return;  // declaration of a kernel that is defined elsewhere
    }
    expect('{');
    scopes_.assign(1, Scope{});
    variable_names_.clear();
    for (const Variable& variable : function_.parameters) {
      variable_names_.insert(variable.name);
    }
    for (const Variable& variable : module_.variables) {
      variable_names_.insert(variable.name);
    }
    scope_ = 0;
    place_ = SourcePlace{};
    for (int depth = 1; depth > 0;) {
      if (depth > kMaxBlockDepth) {
        fail(lexer_.peek(), fmt::format("expected at most {} nested blocks", kMaxBlockDepth));
      }
      depth += read_statement();
    }
    resolve_names();
    module_.kernels.push_back(std::move(function_));
  }

  // Reads one statement of a body. Returns the change in the nesting of blocks: 1, 0 or -1.
  int read_statement() {
    const Token token = lexer_.take();
    if (token.is('{')) {
      charge_memory(kBlockBytes);
      scopes_.push_back(Scope{.parent = scope_});
      scope_ = static_cast<int>(scopes_.size()) - 1;
      return 1;
    }
    if (token.is('}')) {
      scope_ = scopes_[static_cast<std::size_t>(scope_)].parent;
      return -1;
    }
    if (token.is(';')) {
      return 0;
    }
    if (token.is('@')) {
      Instruction instruction;
      instruction.is_guard_negated = take_if('!');
      const Token guard = lexer_.take();
      instruction.guard = find_register(guard.text);
      if (instruction.guard < 0 || register_at(instruction.guard).bits != 1) {
        fail(guard, "expected a predicate");
      }
      read_instruction(std::move(instruction), lexer_.take());
      return 0;
    }
    if (token.kind != TokenKind::kWord) {
      fail(token, "expected an instruction");
    }
    if (token.text[0] == '.') {
      read_body_directive(token);
    } else if (take_if(':')) {
      charge_memory(kNameBytes);
      Scope& scope = scopes_[static_cast<std::size_t>(scope_)];
      const auto next = static_cast<int>(function_.instructions.size());
      if (!scope.labels.emplace(token.text, next).second) {
        fail(token, "duplicate label");
      }
    } else {
      read_instruction(Instruction{}, token);
    }
    return 0;
  }

  void read_body_directive(const Token& token) {
    if (token.text == ".reg") {
      read_registers();
    } else if (token.text == ".loc") {
      place_ = read_place();
    } else if (token.text == ".pragma") {
      skip_to(';');
    } else if (token.text == ".shared" || token.text == ".local") {
      for (Variable& variable : read_variables(token.text)) {
        if (!variable_names_.insert(variable.name).second) {
          fail(token, fmt::format("duplicate variable {}", variable.name));
        }
        function_.variables.push_back(std::move(variable));
      }
    } else {
      fail(token, "unsupported directive");
    }
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
    if (!scopes_[static_cast<std::size_t>(scope_)].registers.emplace(name, index).second) {
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
    instruction.source = place_;
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
    } else if (const int entry = find_register(token.text); entry >= 0) {
      operand.kind = OperandKind::kRegister;
      operand.index = entry;
    } else if (const std::size_t point = token.text.rfind('.');
               point != std::string_view::npos &&
               find_register(token.text.substr(0, point)) >= 0) {
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
  }

  void resolve(Operand& operand, const Instruction& instruction) {
    for (Operand& part : operand.parts) {
      resolve(part, instruction);
    }
    if (operand.kind != OperandKind::kSymbol) {
      return;
    }
    for (int scope = operand.index; scope >= 0;
         scope = scopes_[static_cast<std::size_t>(scope)].parent) {
      const auto& labels = scopes_[static_cast<std::size_t>(scope)].labels;
      if (const auto entry = labels.find(operand.name); entry != labels.end()) {
        operand.kind = OperandKind::kLabel;
        operand.index = entry->second;
        return;
      }
    }
    operand.index = -1;
    if (!variable_names_.contains(operand.name)) {
      throw Error(fmt::format("line {}: there is no register, variable or label '{}'",
                              instruction.line, operand.name));
    }
  }

  Module module_;
  Function function_;
  std::vector<Scope> scopes_;
  int scope_ = 0;
  std::set<std::string, std::less<>> variable_names_;
  SourcePlace place_;
};

}  // namespace

Module parse(std::string_view text, std::size_t max_bytes) {
  return Parser(text, max_bytes).run();
}

}  // namespace emu::syntax
