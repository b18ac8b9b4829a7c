// Declarations in PTX: versions, files, variables, parameters and performance directives.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/syntax/module.hpp"
#include "emulator/syntax/token_reader.hpp"

namespace emu::syntax {

/// Size in bits of a fundamental type: 32 for ".b32".
std::optional<int> bits_of_type(std::string_view name);

/// Reads declarations; each function begins behind the name of the directive.
class DeclarationReader : public TokenReader {
 public:
  using TokenReader::TokenReader;

 protected:
  void read_version(Module& module);
  void read_file(std::vector<std::string>& files);
  /// Reads a declaration of variables in a state space such as ".shared", to the ';'.
  std::vector<Variable> read_variables(std::string_view space);
  void read_parameter(Function& function);
  /// Reads the directives before a kernel's body: .maxntid and others.
  void read_performance_directives(Function& function);
  /// Reads the operands of .loc.
  SourcePlace read_place();

 private:
  /// Reads [.align N] .type and returns the element's size in bytes. Without .align, sets the
  /// alignment to the type's.
  std::size_t read_type(std::size_t& alignment);
  /// Skips .ptr [.space] [.align N], if present.
  void skip_pointer_attributes();
  /// Reads an array's extents and returns its size in bytes: 6 elements for [2][3], 0 for [], 1
  /// without extents.
  std::size_t read_bytes(std::size_t element, std::size_t limit);
  std::vector<std::byte> read_initial(std::size_t element, std::size_t bytes);
};

}  // namespace emu::syntax
