// Declarations in PTX: versions, files, variables, parameters, and what a kernel says of itself.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/syntax/module.hpp"
#include "emulator/syntax/token_reader.hpp"

namespace emu::syntax {

/// Bits of a type as a register or a variable has it: ".b32" has 32.
std::optional<int> bits_of_type(std::string_view name);

/// Each reads on behind the directive's name.
class DeclarationReader : public TokenReader {
 public:
  using TokenReader::TokenReader;

 protected:
  void read_version(Module& module);
  void read_file(std::vector<std::string>& files);
  /// Reads those of a space such as ".shared", to the ';'.
  std::vector<Variable> read_variables(std::string_view space);
  void read_parameter(Function& function);
  /// What stands before a kernel's body: .maxntid and the like.
  void read_performance_directives(Function& function);
  /// .loc
  SourcePlace read_place();

 private:
  /// [.align N] .type: the bytes of an element. The alignment is the type's, if none is said.
  std::size_t read_type(std::size_t& alignment);
  /// .ptr [.space] [.align N], or nothing.
  void skip_pointee();
  /// Reads the extent of an array: [2][3]: 6 elements; []: 0; nothing: 1.
  std::size_t read_bytes(std::size_t element, std::size_t limit);
  std::vector<std::byte> read_initial(std::size_t element, std::size_t bytes);
};

}  // namespace emu::syntax
