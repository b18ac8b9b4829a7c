// Takes tokens that a grammar expects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/syntax/lexer.hpp"

namespace emu::syntax {

/// Every function throws emu::Error, with the line, when another token comes than it expects.
class TokenReader {
 public:
  /// `most_bytes`: of memory that what is read may take.
  TokenReader(std::string_view text, std::size_t most_bytes)
      : lexer_(text), most_bytes_(most_bytes) {}

 protected:
  [[noreturn]] static void fail(const Token& token, std::string_view what);

  Token expect(char sign);
  /// Takes the sign if it comes next.
  bool take_if(char sign);
  std::string expect_word();
  std::uint64_t expect_integer();
  std::uint64_t expect_up_to(std::uint64_t limit);
  /// Takes an integer, after a minus or none.
  std::int64_t expect_signed();
  /// Takes all tokens up to and with the sign.
  void skip_to(char sign);

  /// What comes next takes so much memory.
  void take_memory(std::size_t bytes);
  [[nodiscard]] std::size_t taken_memory() const { return taken_bytes_; }

  Lexer lexer_;  // NOLINT(misc-non-private-member-variables-in-classes): the grammar looks ahead

 private:
  std::size_t most_bytes_;
  std::size_t taken_bytes_ = 0;
};

}  // namespace emu::syntax
