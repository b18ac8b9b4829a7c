// Parser: reads PTX text into a Module, without the bodies of functions.
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emulator/syntax/declarations.hpp"
#include "emulator/syntax/limits.hpp"
#include "emulator/syntax/module.hpp"
#include "fovea_emulator/error.hpp"

namespace emu::syntax {
namespace {

class Parser : DeclarationReader {
 public:
  Parser(std::string_view text, MemoryCharge& memory) : DeclarationReader(text, 1, memory) {}

  Module run() {
    while (lexer_.peek().kind != TokenKind::kEnd) {
      read_module_item();
    }
    if (module_.version_major == 0 || module_.target.empty()) {
      throw Error("this is not PTX: .version or .target is missing");
    }
    return std::move(module_);
  }

 private:
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
      while (lexer_.peek().kind != TokenKind::kEnd && !lexer_.peek().is('{')) {
        lexer_.take();
      }
      if (!lexer_.peek().is('{')) {
        fail(lexer_.peek(), "expected '{'");
      }
      lexer_.take_block();
    } else if (word == ".extern") {
      is_extern_ = true;
      return;
    } else if (word == ".visible" || word == ".weak" || word == ".common") {
      // linkage has no effect here
    } else if (word == ".entry" || word == ".func") {
      read_function(token.line, word == ".entry");
    } else if (word == ".global" || word == ".const" || word == ".shared" || word == ".tex") {
      read_module_variables(word);
    } else if (word == ".alias") {
      std::string alias = expect_word();
      expect(',');
      charge_memory(kNameBytes);
      module_.aliases.insert_or_assign(std::move(alias), expect_word());
      expect(';');
    } else if (word == ".pragma") {
      skip_to(';');
    } else if (word == ".loc") {
      read_place();
    } else {
      fail(token, "unsupported directive");
    }
    is_extern_ = false;
  }

  void read_module_variables(std::string_view word) {
    for (Variable& variable : read_variables(word == ".tex" ? ".global" : word)) {
      if (is_extern_ && variable.space != Space::kShared && variable.refusal.empty()) {
        variable.refusal = fmt::format("{} is defined in another module", variable.name);
      }
      // A definition replaces declarations before it.
      const auto [entry, is_new] =
          module_.variable_numbers.try_emplace(variable.name, module_.variables.size());
      if (is_new) {
        module_.variables.push_back(std::move(variable));
      } else if (!is_extern_) {
        module_.variables[entry->second] = std::move(variable);
      }
    }
  }

  void read_function(int line, bool is_kernel) {
    Function function;
    function.line = line;
    function.is_kernel = is_kernel;
    charge_memory(kFunctionBytes);
    if (!is_kernel) {
      skip_attribute();
      function.results = read_parameter_list();
    }
    function.name = expect_word();
    function.parameters = read_parameter_list();
    if (is_kernel) {
      place_parameters(function);
    }
    read_performance_directives(function);
    if (lexer_.peek().is('{')) {
      function.is_defined = true;
      function.body = lexer_.take_block();
    } else {
      expect(';');  // declaration of a function that is defined later, or elsewhere
    }
    if (!is_kernel) {
      Function& known = module_.functions[function.name];
      if (!known.is_defined) {
        known = std::move(function);
      }
    } else if (function.is_defined) {
      module_.kernels.push_back(std::move(function));
    }
  }

  void place_parameters(Function& function) {
    for (Variable& parameter : function.parameters) {
      parameter.offset = align_up(function.parameter_bytes, parameter.alignment);
      function.parameter_bytes = parameter.offset + parameter.bytes;
      if (function.parameter_bytes > kMaxParameterBytes) {
        throw Error(fmt::format("line {}: the parameters must have at most {} bytes, found '{}'",
                                function.line, kMaxParameterBytes, parameter.name));
      }
      if (parameter.space == Space::kRegister) {
        function.refusal =
            fmt::format("line {}: the parameters of a kernel must be in .param", function.line);
      } else if (!parameter.refusal.empty()) {
        function.refusal = parameter.refusal;
      }
    }
  }

  Module module_;
  bool is_extern_ = false;  // the item that is read next is
};

}  // namespace

const Function* Module::find_function(std::string_view name) const {
  if (const auto alias = aliases.find(name); alias != aliases.end()) {
    name = alias->second;
  }
  const auto function = functions.find(name);
  return function == functions.end() ? nullptr : &function->second;
}

Module parse(std::string_view text, MemoryCharge& memory) {
  return Parser(text, memory).run();
}

}  // namespace emu::syntax
