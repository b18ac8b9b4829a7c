// Declarations in PTX: versions, files, variables, parameters, and what a kernel says of itself.
#include "emulator/syntax/declarations.hpp"

#include <array>
#include <bit>
#include <map>

#include "emulator/syntax/types.hpp"

namespace emu::syntax {

std::optional<int> bits_of_type(std::string_view name) {
  const auto type = name.starts_with('.') ? type_named(name.substr(1)) : std::nullopt;
  return type ? std::optional(bits_of(*type)) : std::nullopt;
}

void DeclarationReader::read_version(Module& module) {  // 9.0 reads as a float
  const Token token = lexer_.take();
  if (token.kind != TokenKind::kFloat) {
    fail(token, "expected a version such as 9.0");
  }
  const std::size_t point = token.text.find('.');
  module.version_major = std::stoi(std::string(token.text.substr(0, point)));
  module.version_minor = std::stoi(std::string(token.text.substr(point + 1)));
}

void DeclarationReader::read_file(std::vector<std::string>& files) {
  const std::uint64_t number = expect_integer();
  const Token name = lexer_.take();
  if (name.kind != TokenKind::kString || number > 100'000) {
    fail(name, "expected a file's number and name");
  }
  if (files.size() <= number) {
    files.resize(number + 1);
  }
  files[number] = name.text;
  while (take_if(',')) {
    expect_integer();  // its time and size
  }
}

std::vector<Variable> DeclarationReader::read_variables(std::string_view space) {
  static const std::map<std::string_view, Space> kSpaces = {{".global", Space::kGlobal},
                                                            {".const", Space::kConstant},
                                                            {".shared", Space::kShared},
                                                            {".local", Space::kLocal}};
  Variable common;
  common.space = kSpaces.at(space);
  const auto element = read_type(common.alignment);
  std::vector<Variable> found;
  do {
    Variable variable = common;
    variable.name = expect_word();
    variable.bytes = element * read_extents();
    if (take_if('=')) {
      variable.initial = read_initial(element, variable.bytes);
    }
    found.push_back(std::move(variable));
  } while (take_if(','));
  expect(';');
  return found;
}

std::size_t DeclarationReader::read_type(std::size_t& alignment) {
  std::size_t said = 0;
  for (;;) {
    const Token token = lexer_.take();
    if (token.text == ".align") {
      said = expect_integer();
      if (!std::has_single_bit(said)) {
        fail(token, "an alignment that is no power of two");
      }
    } else if (const auto bits = bits_of_type(token.text); bits && *bits >= 8) {
      const auto bytes = static_cast<std::size_t>(*bits) / 8;
      alignment = said != 0 ? said : bytes;
      return bytes;
    } else {
      fail(token, "expected a type");
    }
  }
}

// What a parameter points to: nothing depends on it.
void DeclarationReader::skip_pointee() {
  if (lexer_.peek().text != ".ptr") {
    return;
  }
  while (lexer_.peek().text.starts_with('.')) {
    if (lexer_.take().text == ".align") {
      expect_integer();
    }
  }
}

std::size_t DeclarationReader::read_extents() {
  std::size_t elements = 1;
  while (take_if('[')) {
    if (take_if(']')) {
      return 0;
    }
    elements *= expect_integer();
    expect(']');
  }
  return elements;
}

std::vector<std::byte> DeclarationReader::read_initial(std::size_t element, std::size_t bytes) {
  std::vector<std::byte> initial(bytes);
  std::size_t place = 0;
  const auto read_value = [&] {
    const Token token = lexer_.peek();
    const bool is_float = token.kind == TokenKind::kSingle || token.kind == TokenKind::kFloat;
    const std::uint64_t bits =
        is_float ? lexer_.take().bits : static_cast<std::uint64_t>(expect_signed());
    for (std::size_t i = 0; i < element; ++i, ++place) {
      if (place >= bytes) {
        fail(token, "more initial values than elements");
      }
      initial[place] = static_cast<std::byte>(bits >> (8 * i));
    }
  };
  if (!take_if('{')) {
    read_value();
    return initial;
  }
  int depth = 1;
  while (depth > 0) {
    if (take_if('{')) {
      ++depth;
    } else if (take_if('}')) {
      --depth;
    } else if (!take_if(',')) {
      read_value();
    }
  }
  return initial;
}

void DeclarationReader::read_parameter(Function& function) {
  const Token token = lexer_.take();
  if (token.text != ".param") {
    fail(token, "expected a parameter");
  }
  Variable parameter;
  parameter.space = Space::kParameter;
  const std::size_t element = read_type(parameter.alignment);
  skip_pointee();
  parameter.name = expect_word();
  parameter.bytes = element * read_extents();
  parameter.offset = aligned(function.parameter_bytes, parameter.alignment);
  function.parameter_bytes = parameter.offset + parameter.bytes;
  function.parameters.push_back(std::move(parameter));
}

void DeclarationReader::read_performance_directives(Function& function) {
  const auto read_three = [&](std::array<std::uint32_t, 3>& sizes) {
    sizes = {1, 1, 1};
    std::size_t i = 0;
    do {
      const Token token = lexer_.peek();
      const std::uint64_t value = expect_integer();
      if (i == 3 || value > UINT32_MAX) {
        fail(token, "a size that is too large");
      }
      sizes[i++] = static_cast<std::uint32_t>(value);
    } while (take_if(','));
  };
  while (lexer_.peek().kind == TokenKind::kWord) {
    const Token token = lexer_.take();
    if (token.text == ".maxntid") {
      read_three(function.most_threads);
    } else if (token.text == ".reqntid") {
      read_three(function.required_threads);
    } else if (token.text == ".reqnctapercluster") {
      read_three(function.required_cluster);
    } else if (token.text == ".maxnreg") {
      function.most_registers = static_cast<int>(expect_integer());
    } else if (token.text == ".minnctapersm") {
      function.least_blocks = static_cast<std::uint32_t>(expect_integer());
    } else if (token.text == ".maxclusterrank") {
      expect_integer();
    } else if (token.text == ".pragma") {
      skip_to(';');
    } else if (token.text != ".explicitcluster" && token.text != ".noreturn") {
      fail(token, "a directive that the emulator does not know");
    }
  }
}

SourcePlace DeclarationReader::read_place() {
  const auto read_number = [&] { return static_cast<int>(expect_integer()); };
  SourcePlace place;
  place.file = read_number();
  place.line = read_number();
  read_number();  // its column
  while (take_if(',')) {
    const Token what = lexer_.take();
    if (what.text == "function_name") {
      expect_word();
      if (take_if('+')) {
        expect_integer();
      }
    } else if (what.text == "inlined_at") {
      place.inlined_file = read_number();
      place.inlined_line = read_number();
      read_number();
    } else {
      fail(what, "expected function_name or inlined_at");
    }
  }
  return place;
}

}  // namespace emu::syntax
