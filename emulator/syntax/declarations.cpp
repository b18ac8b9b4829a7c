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
      break;
  }
  return kMaxVariableBytes;
}

}  // namespace

std::vector<Variable> DeclarationReader::read_variables(std::string_view space) {
  static const std::map<std::string_view, Space> kSpaces = {{".global", Space::kGlobal},
                                                            {".const", Space::kConstant},
                                                            {".shared", Space::kShared},
                                                            {".local", Space::kLocal}};
  Variable common;
  common.space = kSpaces.at(space);
  const auto element = read_type(common.alignment);
  std::vector<Variable> variables;
  do {
    Variable variable = common;
    variable.name = expect_word();
    charge_memory(kNameBytes);
    variable.bytes = read_bytes(element, max_bytes_of(common.space));
    if (common.space == Space::kGlobal || common.space == Space::kConstant) {
      charge_memory(2 * variable.bytes);  // data and initialisation flags
    }
    if (take_if('=')) {
      charge_memory(variable.bytes);
      variable.initial = read_initial(element, variable.bytes);
    }
    variables.push_back(std::move(variable));
  } while (take_if(','));
  expect(';');
  return variables;
}

std::size_t DeclarationReader::read_type(std::size_t& alignment) {
  std::size_t declared = 0;
  for (;;) {
    const Token token = lexer_.take();
    if (token.text == ".align") {
      declared = expect_integer_up_to(kMaxAlignment);
      if (!std::has_single_bit(declared)) {
        fail(token, "the alignment must be a power of two");
      }
    } else if (const auto bits = bits_of_type(token.text); bits && *bits >= 8) {
      const auto bytes = static_cast<std::size_t>(*bits) / 8;
      alignment = declared != 0 ? declared : bytes;
      return bytes;
    } else {
      fail(token, "expected a type");
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

std::size_t DeclarationReader::read_bytes(std::size_t element, std::size_t limit) {
  std::size_t bytes = element;
  while (lexer_.peek().is('[')) {
    const Token bracket = lexer_.take();
    if (take_if(']')) {
      return 0;
    }
    const std::uint64_t extent = expect_integer();
    if (extent != 0 && bytes > limit / extent) {
      fail(bracket, fmt::format("the variable must have at most {} bytes", limit));
    }
    bytes *= extent;
    expect(']');
  }
  return bytes;
}

std::vector<std::byte> DeclarationReader::read_initial(std::size_t element, std::size_t bytes) {
  std::vector<std::byte> initial(bytes);
  std::size_t offset = 0;
  const auto read_value = [&] {
    const Token token = lexer_.peek();
    const bool is_float = token.kind == TokenKind::kSingle || token.kind == TokenKind::kFloat;
    const std::uint64_t bits =
        is_float ? lexer_.take().bits : static_cast<std::uint64_t>(expect_signed());
    for (std::size_t i = 0; i < element; ++i, ++offset) {
      if (offset >= bytes) {
        fail(token, "there are more initial values than elements");
      }
      initial[offset] = static_cast<std::byte>(bits >> (8 * i));
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
  skip_pointer_attributes();
  parameter.name = expect_word();
  parameter.bytes = read_bytes(element, kMaxParameterBytes);
  parameter.offset = align_up(function.parameter_bytes, parameter.alignment);
  function.parameter_bytes = parameter.offset + parameter.bytes;
  if (function.parameter_bytes > kMaxParameterBytes) {
    fail(token, fmt::format("the parameters must have at most {} bytes", kMaxParameterBytes));
  }
  charge_memory(kNameBytes);
  function.parameters.push_back(std::move(parameter));
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
    } else if (token.text == ".maxnreg") {
      function.max_registers = static_cast<int>(expect_integer_up_to(kMaxRegisters));
    } else if (token.text == ".minnctapersm") {
      function.min_blocks = static_cast<std::uint32_t>(expect_integer_up_to(kMaxSize));
    } else if (token.text == ".maxclusterrank") {
      expect_integer();
    } else if (token.text == ".pragma") {
      skip_to(';');
    } else if (token.text != ".explicitcluster" && token.text != ".noreturn") {
      fail(token, "unsupported directive");
    }
  }
}

SourcePlace DeclarationReader::read_place() {
  const auto read_number = [&] {
    return static_cast<int>(expect_integer_up_to(std::numeric_limits<int>::max()));
  };
  SourcePlace place;
  place.file = read_number();
  place.line = read_number();
  read_number();  // column
  while (take_if(',')) {
    const Token attribute = lexer_.take();
    if (attribute.text == "function_name") {
      expect_word();
      if (take_if('+')) {
        expect_integer();
      }
    } else if (attribute.text == "inlined_at") {
      place.inlined_file = read_number();
      place.inlined_line = read_number();
      read_number();
    } else {
      fail(attribute, "expected function_name or inlined_at");
    }
  }
  return place;
}

}  // namespace emu::syntax
