// Token reader: takes tokens that a grammar expects, or fails with the line.
#include "emulator/syntax/token_reader.hpp"

#include <fmt/format.h>

#include "fovea_emulator/error.hpp"

namespace emu::syntax {

void TokenReader::fail(const Token& token, std::string_view reason) {
  const std::string found =
      token.kind == TokenKind::kEnd ? "the end of the text" : fmt::format("'{}'", token.text);
  throw Error(fmt::format("line {}: {}, found {}", token.line, reason, found));
}

Token TokenReader::expect(char sign) {
  const Token token = lexer_.take();
  if (!token.is(sign)) {
    fail(token, fmt::format("expected '{}'", sign));
  }
  return token;
}

bool TokenReader::take_if(char sign) {
  if (!lexer_.peek().is(sign)) {
    return false;
  }
  lexer_.take();
  return true;
}

std::string TokenReader::expect_word() {
  const Token token = lexer_.take();
  if (token.kind != TokenKind::kWord) {
    fail(token, "expected a name");
  }
  return std::string(token.text);
}

std::uint64_t TokenReader::expect_integer() {
  const Token token = lexer_.take();
  if (token.kind != TokenKind::kInteger) {
    fail(token, "expected an integer");
  }
  return token.bits;
}

std::int64_t TokenReader::expect_signed() {
  const bool is_negative = take_if('-');
  const std::uint64_t bits = expect_integer();
  return static_cast<std::int64_t>(is_negative ? std::uint64_t{0} - bits : bits);
}

std::uint64_t TokenReader::expect_integer_up_to(std::uint64_t limit) {
  const Token token = lexer_.peek();
  const std::uint64_t value = expect_integer();
  if (value > limit) {
    fail(token, fmt::format("expected an integer of at most {}", limit));
  }
  return value;
}

void TokenReader::skip_to(char sign) {
  while (!lexer_.peek().is(sign)) {
    if (lexer_.peek().kind == TokenKind::kEnd) {
      fail(lexer_.peek(), fmt::format("expected '{}'", sign));
    }
    lexer_.take();
  }
  lexer_.take();
}

}  // namespace emu::syntax
