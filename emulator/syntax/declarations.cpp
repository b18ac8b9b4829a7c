// Declarations in PTX: versions, files, variables, parameters and performance directives.
#include "emulator/syntax/declarations.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "emulator/syntax/limits.hpp"
#include "emulator/syntax/types.hpp"

namespace emu::syntax {

std::optional<int> bits_of_type(std::string_view name) {
  const auto type = name.starts_with('.') ? find_type(name.substr(1)) : std::nullopt;
  return type ? std::optional(bits_of(*type)) : std::nullopt;
}

void DeclarationReader::read_version(Module& module) {
  const Token token = lexer_.take();  // the lexer reads 9.0 as a float
  if (token.kind != TokenKind::kFloat) {
    fail(token, "expected a version such as 9.0");
  }
  const std::size_t point = token.text.find('.');
  const auto read_number = [&](std::string_view text, int& number) {
    const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
    if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) {
      fail(token, "expected a version such as 9.0");
    }
  };
  read_number(token.text.substr(0, point), module.version_major);
  read_number(token.text.substr(point + 1), module.version_minor);
}

void DeclarationReader::read_file(std::vector<std::string>& files) {
  constexpr std::uint64_t kMaxFiles = 100'000;
  const std::uint64_t number = expect_integer_up_to(kMaxFiles);
  const Token name = lexer_.take();
  if (name.kind != TokenKind::kString) {
    fail(name, "expected a file's number and name");
  }
  charge_memory(name.text.size());
  if (files.size() <= number) {
    charge_memory((number + 1 - files.size()) * sizeof(std::string));
    files.resize(number + 1);
  }
  files[number] = name.text;
  while (take_if(',')) {
    expect_integer();  // optional modification time and size
  }
}

namespace {

std::size_t max_bytes_of(Space space) {
  switch (space) {
    case Space::kShared:
      return kMaxSharedBytes;
    case Space::kLocal:
      return kMaxLocalBytes;
    case Space::kParameter:
      return kMaxParameterBytes;
    case Space::kGlobal:
    case Space::kConstant:
    case Space::kRegister:
      break;
  }
  return kMaxVariableBytes;
}

}  // namespace

std::vector<Variable> DeclarationReader::read_variables(std::string_view space) {
  static const std::map<std::string_view, Space> kSpaces = {{".global", Space::kGlobal},
                                                            {".const", Space::kConstant},
                                                            {".shared", Space::kShared},
                                                            {".local", Space::kLocal},
                                                            {".param", Space::kParameter}};
  const DeclaredType type = read_type();
  Variable common;
  common.space = kSpaces.at(space);
  common.alignment = type.alignment;
  common.refusal = type.refusal;
  const bool is_in_memory = common.space == Space::kGlobal || common.space == Space::kConstant;
  const std::size_t limit = max_bytes_of(common.space);
  std::vector<Variable> variables;
  do {
    Variable variable = common;
    variable.name = expect_word();
    charge_memory(kNameBytes);
    if (!type.type) {
      skip_to(';');
      variables.push_back(std::move(variable));
      return variables;
    }
    const std::vector<std::uint64_t> extents = read_extents(type);
    variable.bytes = size_of(type, extents, limit);
    if (const Token sign = lexer_.peek(); take_if('=')) {
      if (!is_in_memory) {
        fail(sign, "only variables in .global and .const have initial values");
      }
      read_initial(variable, *type.type, extents, limit);
    }
    if (is_in_memory) {
      charge_memory(2 * variable.bytes);  // data and initialisation flags
    }
    variables.push_back(std::move(variable));
  } while (take_if(','));
  expect(';');
  return variables;
}

DeclarationReader::DeclaredType DeclarationReader::read_type() {
  DeclaredType declared;
  std::size_t alignment = 0;
  for (;;) {
    skip_attribute();
    const Token token = lexer_.take();
    if (token.text == ".align") {
      alignment = expect_integer_up_to(kMaxAlignment);
      if (!std::has_single_bit(alignment)) {
        fail(token, "the alignment must be a power of two");
      }
    } else if (token.text == ".v2" || token.text == ".v4" || token.text == ".v8") {
      declared.elements = static_cast<std::size_t>(token.text[2] - '0');
    } else if (const auto bits = bits_of_type(token.text); bits && *bits >= 8) {
      declared.name = token.text.substr(1);
      declared.type = find_type(declared.name);
      declared.alignment =
          alignment != 0 ? alignment : static_cast<std::size_t>(*bits) / 8 * declared.elements;
      return declared;
    } else if (token.kind == TokenKind::kWord && token.text.starts_with('.')) {
      declared.refusal = fmt::format("line {}: unsupported type {}", token.line, token.text);
      return declared;
    } else {
      fail(token, "expected a type");
    }
  }
}

void DeclarationReader::skip_attribute() {
  if (lexer_.peek().text == ".attribute") {
    lexer_.take();
    expect('(');
    for (int depth = 1; depth > 0;) {
      const Token token = lexer_.take();
      if (token.kind == TokenKind::kEnd) {
        fail(token, "expected ')'");
      }
      depth += token.is('(') ? 1 : token.is(')') ? -1 : 0;
    }
  }
}

// Skips the attributes of a pointer parameter, which have no effect here.
void DeclarationReader::skip_pointer_attributes() {
  if (lexer_.peek().text != ".ptr") {
    return;
  }
  while (lexer_.peek().text.starts_with('.')) {
    if (lexer_.take().text == ".align") {
      expect_integer();
    }
  }
}

std::vector<std::uint64_t> DeclarationReader::read_extents(const DeclaredType& type) {
  constexpr std::size_t kMaxExtents = 16;
  std::vector<std::uint64_t> extents;
  while (lexer_.peek().is('[')) {
    const Token bracket = lexer_.take();
    if (extents.size() == kMaxExtents) {
      fail(bracket, fmt::format("a variable has at most {} extents", kMaxExtents));
    }
    const bool is_open = take_if(']');
    extents.push_back(is_open ? 0 : expect_integer());
    if (!is_open) {
      expect(']');
    }
    if (extents.back() == 0 && extents.size() > 1) {
      fail(bracket, "only the first extent may be left out or 0");
    }
  }
  if (type.elements > 1) {
    extents.push_back(type.elements);
  }
  return extents;
}

std::size_t DeclarationReader::size_of(const DeclaredType& type,
                                       std::span<const std::uint64_t> extents, std::size_t limit) {
  std::size_t bytes = static_cast<std::size_t>(bits_of(*type.type)) / 8;
  std::size_t elements = bytes;  // size of an array whose extents of 0 are left out
  for (const std::uint64_t extent : extents) {
    const std::uint64_t factor = extent == 0 ? 1 : extent;
    if (elements > limit / factor) {
      fail(lexer_.peek(), fmt::format("the variable must have at most {} bytes", limit));
    }
    elements *= factor;
    bytes *= extent;
  }
  return bytes;
}

Variable DeclarationReader::read_parameter() {
  const Token token = lexer_.take();
  if (token.text != ".param" && token.text != ".reg") {
    fail(token, "expected a parameter");
  }
  Variable parameter;
  parameter.space = token.text == ".reg" ? Space::kRegister : Space::kParameter;
  if (parameter.space == Space::kRegister && lexer_.peek().text == ".pred") {
    fail(token, "unsupported parameter that is a predicate");
  }
  const DeclaredType type = read_type();
  parameter.alignment = type.alignment;
  parameter.refusal = type.refusal;
  parameter.is_pointer = lexer_.peek().text == ".ptr";
  skip_pointer_attributes();
  parameter.name = expect_word();
  if (type.type) {
    const std::vector<std::uint64_t> extents = read_extents(type);
    parameter.bytes = size_of(type, extents, kMaxParameterBytes);
    parameter.type = type.name;
    parameter.is_array = !extents.empty();
  }
  charge_memory(kNameBytes);
  return parameter;
}

std::vector<Variable> DeclarationReader::read_parameter_list() {
  std::vector<Variable> parameters;
  if (take_if('(')) {
    while (!take_if(')')) {
      parameters.push_back(read_parameter());
      if (!lexer_.peek().is(')')) {
        expect(',');
      }
    }
  }
  return parameters;
}

void DeclarationReader::read_performance_directives(Function& function) {
  constexpr std::uint64_t kMaxSize =
      1U << 20U;  // so that the product of three sizes fits into 64 bits
  constexpr std::uint64_t kMaxRegisters = 256;
  const auto read_sizes = [&](std::array<std::uint32_t, 3>& sizes) {
    sizes = {1, 1, 1};
    std::size_t i = 0;
    do {
      if (i == sizes.size()) {
        fail(lexer_.peek(), "at most three sizes are allowed");
      }
      sizes.at(i++) = static_cast<std::uint32_t>(expect_integer_up_to(kMaxSize));
    } while (take_if(','));
  };
  while (lexer_.peek().kind == TokenKind::kWord) {
    const Token token = lexer_.take();
    if (token.text == ".maxntid") {
      read_sizes(function.max_threads);
    } else if (token.text == ".reqntid") {
      read_sizes(function.required_threads);
    } else if (token.text == ".reqnctapercluster") {
      read_sizes(function.required_cluster);
    } else if (token.text == ".blocksareclusters") {
      function.blocks_are_clusters = true;
    } else if (token.text == ".maxnreg") {
      function.max_registers = static_cast<int>(expect_integer_up_to(kMaxRegisters));
    } else if (token.text == ".minnctapersm") {
      function.min_blocks = static_cast<std::uint32_t>(expect_integer_up_to(kMaxSize));
    } else if (token.text == ".maxclusterrank" || token.text == ".abi_preserve" ||
               token.text == ".abi_preserve_control") {
      expect_integer();
    } else if (token.text == ".pragma") {
      skip_to(';');
    } else if (token.text != ".explicitcluster" && token.text != ".noreturn" &&
               token.text != ".unique") {
      function.refusal =
          fmt::format("line {}: unsupported directive, found '{}'", token.line, token.text);
      while (lexer_.peek().kind != TokenKind::kEnd && !lexer_.peek().is('{') &&
             !lexer_.peek().is(';')) {
        lexer_.take();
      }
    }
  }
}

SourceDirective DeclarationReader::read_place() {
  const auto read_number = [&] {
    return static_cast<int>(expect_integer_up_to(std::numeric_limits<int>::max()));
  };
  const auto read_position = [&] {
    SourcePosition position;
    position.file = read_number();
    position.line = read_number();
    position.column = read_number();
    return position;
  };
  SourceDirective place{.position = read_position()};
  while (take_if(',')) {
    const Token attribute = lexer_.take();
    if (attribute.text == "function_name") {
      expect_word();
      if (take_if('+')) {
        expect_integer();
      }
    } else if (attribute.text == "inlined_at") {
      place.inlined_at = read_position();
    } else {
      fail(attribute, "expected function_name or inlined_at");
    }
  }
  return place;
}

}  // namespace emu::syntax
