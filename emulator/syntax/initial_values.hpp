// Initial values of variables in PTX: numbers, addresses of variables and functions, nested lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/syntax/module.hpp"
#include "emulator/syntax/token_reader.hpp"
#include "emulator/syntax/types.hpp"

namespace emu::syntax {

class InitialValueReader : public TokenReader {
 public:
  using TokenReader::TokenReader;

 protected:
  /// Reads the initial value of an array with these extents, of which the first is 0 if the value
  /// determines it, and sets the variable's size. `max_bytes` limits that size.
  void read_initial(Variable& variable, Type type, std::span<const std::uint64_t> extents,
                    std::size_t max_bytes);

 private:
  /// Place of the values that are read.
  struct Target {
    Variable& variable;
    Type type;
    std::vector<std::size_t> rows{};  // size of an element of the list at each depth
    std::size_t max_bytes = 0;
  };
  void read_list(const Target& target, std::size_t depth, std::size_t offset);
  void read_value(const Target& target, std::size_t offset);
  /// Reads [+ number] behind the name of a symbol.
  void read_symbol(Relocation& relocation);
  /// Makes room for bytes at the offset; fails at the token if the variable has no such bytes.
  void reserve(const Target& target, const Token& token, std::size_t end);
};

}  // namespace emu::syntax
