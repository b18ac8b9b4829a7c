// Token reader: takes tokens that a grammar expects, or fails with the line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/syntax/lexer.hpp"
#include "emulator/syntax/memory_charge.hpp"

namespace emu::syntax {

/// Reads the tokens of a text. Every function throws emu::Error, with the line, if the next token
/// is not the expected one.
class TokenReader {
 public:
  /// Reads a text that begins at this line. `memory` is charged with the parts that are read.
  TokenReader(std::string_view text, int line, MemoryCharge& memory)
      : lexer_(text, line), memory_(memory) {}

 protected:
  [[noreturn]] static void fail(const Token& token, std::string_view reason);

  Token expect(char sign);
  /// Takes the next token if it is this sign; returns whether it did.
  bool take_if(char sign);
  std::string expect_word();
  std::uint64_t expect_integer();
  std::uint64_t expect_integer_up_to(std::uint64_t limit);
  /// Takes an integer with an optional minus.
  std::int64_t expect_signed();
  /// Skips all tokens up to the sign, and the sign.
  void skip_to(char sign);

  /// Adds the memory of the part that is read next; throws TooLarge when the limit is exceeded.
  void charge_memory(std::size_t bytes) { memory_.add(bytes, lexer_.peek().line); }

  Lexer lexer_;  // NOLINT(misc-non-private-member-variables-in-classes): the grammar looks ahead

 private:
  MemoryCharge& memory_;
};

}  // namespace emu::syntax
