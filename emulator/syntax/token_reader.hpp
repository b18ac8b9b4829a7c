// Takes tokens that a grammar expects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/syntax/lexer.hpp"

namespace emu::syntax {

/// Every function throws emu::Error, with the line, when another token comes than it expects.
class TokenReader {
 public:
  explicit TokenReader(std::string_view text) : lexer_(text) {}

 protected:
  [[noreturn]] static void fail(const Token& token, std::string_view what);

  Token expect(char sign);
  /// Takes the sign if it comes next.
  bool take_if(char sign);
  std::string expect_word();
  std::uint64_t expect_integer();
  /// Likewise, after a minus or none.
  std::int64_t expect_signed();
  /// Takes all tokens up to and with the sign.
  void skip_to(char sign);

  Lexer lexer_;  // NOLINT(misc-non-private-member-variables-in-classes): the grammar looks ahead
};

}  // namespace emu::syntax
