// Declarations in PTX: versions, files, variables, parameters and performance directives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/syntax/initial_values.hpp"
#include "emulator/syntax/module.hpp"
#include "emulator/syntax/types.hpp"

namespace emu::syntax {

/// Size in bits of a fundamental type: 32 for ".b32".
std::optional<int> bits_of_type(std::string_view name);

/// Operands of .loc.
struct SourceDirective {
  SourcePosition position{};
  std::optional<SourcePosition> inlined_at{};  // a call, whose own .loc is above
};

/// Reads declarations; each function begins behind the name of the directive.
class DeclarationReader : public InitialValueReader {
 public:
  using InitialValueReader::InitialValueReader;

 protected:
  void read_version(Module& module);
  void read_file(std::vector<std::string>& files);
  /// Reads a declaration of variables in a state space such as ".shared", to the ';'.
  std::vector<Variable> read_variables(std::string_view space);
  /// Reads the parameter or result of a function: .param or .reg, a type and a name.
  Variable read_parameter();
  /// Reads the parameters or results in parentheses, if there are any.
  std::vector<Variable> read_parameter_list();
  /// Skips .attribute(...), which has no effect here, if it is next.
  void skip_attribute();
  /// Reads the directives before a function's body: .maxntid and others. An unknown one refuses the
  /// function.
  void read_performance_directives(Function& function);
  /// Reads the operands of .loc.
  SourceDirective read_place();

 private:
  /// Type of a declaration: ".align 16 .v4 .f32".
  struct DeclaredType {
    std::optional<Type> type{};  // nothing if it is not supported
    std::string_view name{};     // of the type: "f32"
    std::size_t elements = 1;    // of a vector
    std::size_t alignment = 1;   // the declared one, or the type's own
    std::string refusal{};
  };
  DeclaredType read_type();
  /// Skips .ptr [.space] [.align N], if present.
  void skip_pointer_attributes();
  /// Reads an array's extents; 0 stands for [].
  std::vector<std::uint64_t> read_extents(const DeclaredType& type);
  /// Returns the size of an array in bytes; fails above the limit.
  [[nodiscard]] std::size_t size_of(const DeclaredType& type,
                                    std::span<const std::uint64_t> extents, std::size_t limit);
};

}  // namespace emu::syntax
