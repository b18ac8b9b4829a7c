// Lexer: splits PTX text into words, numbers and signs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace emu::syntax {

enum class TokenKind : std::uint8_t {
  kEnd,
  kWord,     // an opcode with its modifiers, a directive, a register, a label or a symbol
  kInteger,  // value in `bits`, in two's complement
  kFloat,    // value in `bits`, as binary64
  kSingle,   // value in `bits`, as binary32; written 0f........
  kString,   // text without the quotes
  kSign,     // a single character
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text{};
  std::uint64_t bits = 0;
  int line = 0;  // from 1

  [[nodiscard]] bool is(char sign) const { return kind == TokenKind::kSign && text[0] == sign; }
};

/// Text between a '{' and its '}'.
struct TextBlock {
  std::string_view text{};
  int line = 0;  // line of its beginning
};

/// Splits a text into tokens, skipping comments and white space. The text must outlive the lexer.
class Lexer {
 public:
  /// `line` is the line of the text's beginning.
  explicit Lexer(std::string_view text, int line = 1);

  /// Returns the next token without taking it.
  [[nodiscard]] const Token& peek() const { return next_; }
  /// Takes the next token. Throws emu::Error at a character that cannot begin a token.
  Token take();
  /// Takes the next token, which must be '{', and all up to its '}' without splitting it into
  /// tokens. Throws emu::Error if there is no '}'.
  TextBlock take_block();

 private:
  void skip_space();
  void skip_string();
  [[nodiscard]] Token scan();
  [[nodiscard]] Token scan_number();
  [[nodiscard]] char at(std::size_t ahead) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int line_;
  Token next_;
};

}  // namespace emu::syntax
