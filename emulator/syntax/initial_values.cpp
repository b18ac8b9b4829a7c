// Initial values of variables in PTX: numbers, addresses of variables and functions, nested lists.
#include "emulator/syntax/initial_values.hpp"

#include <bit>

#include "emulator/syntax/limits.hpp"

namespace emu::syntax {

void InitialValueReader::read_initial(Variable& variable, Type type,
                                      std::span<const std::uint64_t> extents,
                                      std::size_t max_bytes) {
  if (bits_of(type) > 64) {
    fail(lexer_.peek(), "unsupported initial value of more than 64 bits");
  }
  const bool is_open = !extents.empty() && extents.front() == 0;
  Target target{.variable = variable, .type = type, .max_bytes = max_bytes};
  std::size_t row = static_cast<std::size_t>(bits_of(type)) / 8;
  for (std::size_t i = extents.size(); i-- > 0;) {
    target.rows.insert(target.rows.begin(), row);
    row *= extents[i];
  }
  if (!is_open) {
    target.max_bytes = variable.bytes;
    reserve(target, lexer_.peek(), variable.bytes);
  }
  if (lexer_.peek().is('{')) {
    read_list(target, 0, 0);
  } else {
    read_value(target, 0);
  }
  if (is_open) {
    const std::size_t elements =
        (variable.initial.size() + target.rows.front() - 1) / target.rows.front();
    reserve(target, lexer_.peek(), elements * target.rows.front());
    variable.bytes = variable.initial.size();
  }
}

void InitialValueReader::read_list(const Target& target, std::size_t depth, std::size_t offset) {
  const Token open = expect('{');
  if (depth >= target.rows.size()) {
    fail(open, "the initial value has more nested lists than the variable has extents");
  }
  while (!take_if('}')) {
    if (lexer_.peek().is('{')) {
      read_list(target, depth + 1, offset);
      offset += target.rows[depth];
    } else {
      read_value(target, offset);
      offset += target.rows.back();
    }
    if (!lexer_.peek().is('}')) {
      expect(',');
    }
  }
}

void InitialValueReader::read_value(const Target& target, std::size_t offset) {
  const Token token = lexer_.peek();
  const std::size_t bytes = static_cast<std::size_t>(bits_of(target.type)) / 8;
  reserve(target, token, offset + bytes);
  Relocation relocation{.offset = offset, .bytes = bytes, .symbol = {}, .line = token.line};
  std::uint64_t bits = 0;
  if (token.kind == TokenKind::kWord) {
    read_symbol(relocation);
  } else if (token.kind == TokenKind::kSingle || token.kind == TokenKind::kFloat) {
    bits = lexer_.take().bits;
    if (token.kind == TokenKind::kFloat && target.type == Type::kF32) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    }
  } else {
    bits = static_cast<std::uint64_t>(expect_signed());
    if (lexer_.peek().is('(')) {  // a byte of an address: 0xFF00(symbol)
      lexer_.take();
      read_symbol(relocation);
      expect(')');
      relocation.shift = static_cast<unsigned>(std::countr_zero(bits | std::uint64_t{1} << 63U));
    }
  }
  if (!relocation.symbol.empty()) {
    charge_memory(kNameBytes);
    target.variable.relocations.push_back(std::move(relocation));
    return;
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    target.variable.initial[offset + i] = static_cast<std::byte>(bits >> (8 * i));
  }
}

void InitialValueReader::read_symbol(Relocation& relocation) {
  relocation.symbol = expect_word();
  if (relocation.symbol == "generic" && take_if('(')) {
    relocation.symbol = expect_word();
    expect(')');
  }
  if (take_if('+') || lexer_.peek().is('-')) {
    relocation.addend = expect_signed();
  }
}

void InitialValueReader::reserve(const Target& target, const Token& token, std::size_t end) {
  if (end > target.max_bytes) {
    fail(token, "there are more initial values than elements");
  }
  if (std::vector<std::byte>& initial = target.variable.initial; initial.size() < end) {
    charge_memory(end - initial.size());
    initial.resize(end);
  }
}

}  // namespace emu::syntax
