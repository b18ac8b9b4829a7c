// Lexer: splits PTX text into words, numbers and signs.
#include "emulator/syntax/lexer.hpp"

#include <bit>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "fovea_emulator/error.hpp"

namespace emu::syntax {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool begins_word(char c) {
  return is_letter(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

}  // namespace

Lexer::Lexer(std::string_view text, int line) : text_(text), line_(line) {
  next_ = scan();
}

Token Lexer::take() {
  const Token token = next_;
  if (token.kind != TokenKind::kEnd) {
    next_ = scan();
  }
  return token;
}

void Lexer::skip_space() {
  for (;;) {
    const char c = at(0);
    if (c == '/' && at(1) == '/') {
      while (position_ < text_.size() && text_[position_] != '\n') {
        ++position_;
      }
    } else if (c == '/' && at(1) == '*') {
      const int first_line = line_;
      position_ += 2;
      while (!(at(0) == '*' && at(1) == '/')) {
        if (position_ >= text_.size()) {
          throw Error(fmt::format("line {}: unterminated comment", first_line));
        }
        line_ += at(0) == '\n' ? 1 : 0;
        ++position_;
      }
      position_ += 2;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' ||
               (c == '\0' &&
                position_ < text_.size())) {  // CUDA drivers accept text that ends in a zero byte
      line_ += c == '\n' ? 1 : 0;
      ++position_;
    } else {
      return;
    }
  }
}

// Skips a string, from its first quote to its last.
void Lexer::skip_string() {
  ++position_;
  while (at(0) != '"') {
    if (position_ >= text_.size() || at(0) == '\n') {
      throw Error(fmt::format("line {}: unterminated string", line_));
    }
    ++position_;
  }
  ++position_;
}

TextBlock Lexer::take_block() {
  const int first_line = next_.line;
  const std::size_t begin = position_;
  TextBlock block{.line = line_};
  for (int depth = 1; depth > 0;) {
    skip_space();
    if (position_ >= text_.size()) {
      throw Error(fmt::format("line {}: the block that begins here has no end", first_line));
    }
    if (at(0) == '"') {
      skip_string();
    } else {
      depth += at(0) == '{' ? 1 : at(0) == '}' ? -1 : 0;
      ++position_;
    }
  }
  block.text = text_.substr(begin, position_ - 1 - begin);
  next_ = scan();
  return block;
}

Token Lexer::scan_number() {
  const std::size_t start = position_;
  Token token{.line = line_};
  const auto finish = [&](TokenKind kind, std::uint64_t bits) {
    token.kind = kind;
    token.bits = bits;
    token.text = text_.substr(start, position_ - start);
    return token;
  };
  const auto digits = [&](int base, auto&& is_digit_of_base) {
    const std::size_t first = position_;
    while (is_digit_of_base(at(0))) {
      ++position_;
    }
    std::uint64_t value = 0;
    const char* const end = text_.data() + position_;
    const auto result = std::from_chars(text_.data() + first, end, value, base);
    if (result.ec != std::errc{} || result.ptr != end) {
      throw Error(fmt::format("line {}: invalid number '{}'", line_,
                              text_.substr(start, position_ - start)));
    }
    if (at(0) == 'U') {
      ++position_;
    }
    return value;
  };
  if (at(0) == '0' && (at(1) == 'x' || at(1) == 'X')) {
    position_ += 2;
    return finish(TokenKind::kInteger, digits(16, is_hex));
  }
  if (at(0) == '0' && (at(1) == 'b' || at(1) == 'B')) {
    position_ += 2;
    return finish(TokenKind::kInteger, digits(2, [](char c) { return c == '0' || c == '1'; }));
  }
  if (at(0) == '0' && (at(1) == 'f' || at(1) == 'F') && is_hex(at(2))) {
    position_ += 2;
    return finish(TokenKind::kSingle, digits(16, is_hex));
  }
  if (at(0) == '0' && (at(1) == 'd' || at(1) == 'D') && is_hex(at(2))) {
    position_ += 2;
    return finish(TokenKind::kFloat, digits(16, is_hex));
  }
  std::size_t ahead = 0;
  while (is_digit(at(ahead))) {
    ++ahead;
  }
  if (at(ahead) == '.' && is_digit(at(ahead + 1))) {
    // Unlike strtod, the same in all locales, which programs in the emulator may change.
    double value = 0;
    const char* const first = text_.data() + position_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error != std::errc{}) {
      throw Error(fmt::format("line {}: invalid number '{}'", line_, std::string_view(first, end)));
    }
    position_ += static_cast<std::size_t>(end - first);
    return finish(TokenKind::kFloat, std::bit_cast<std::uint64_t>(value));
  }
  const bool is_octal = at(0) == '0' && is_digit(at(1));
  return finish(TokenKind::kInteger, digits(is_octal ? 8 : 10, is_digit));
}

Token Lexer::scan() {
  skip_space();
  const std::size_t start = position_;
  Token token{.line = line_};
  const char c = at(0);
  if (c == '\0') {
    return token;
  }
  if (is_digit(c)) {
    return scan_number();
  }
  if (begins_word(c)) {
    ++position_;
    for (;;) {
      const char next = at(0);
      if (next == '.' && c == '.') {
        break;  // directives and types need no blank between them: ".reg.b16"
      }
      if (begins_word(next) || is_digit(next)) {
        ++position_;
      } else if (next == ':' && at(1) == ':' && (is_letter(at(2)) || is_digit(at(2)))) {
        position_ += 2;
      } else {
        break;
      }
    }
    token.kind = TokenKind::kWord;
    token.text = text_.substr(start, position_ - start);
    return token;
  }
  if (c == '"') {
    skip_string();
    token.kind = TokenKind::kString;
    token.text = text_.substr(start + 1, position_ - start - 2);
    return token;
  }
  if (std::string_view("{}[]()<>,;:@!|+-=~").find(c) == std::string_view::npos) {
    throw Error(fmt::format("line {}: unexpected character '{}'", line_, c));
  }
  ++position_;
  token.kind = TokenKind::kSign;
  token.text = text_.substr(start, 1);
  return token;
}

}  // namespace emu::syntax
