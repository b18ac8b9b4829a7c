// A parsed PTX module: functions, registers and instructions, with resolved names. The bodies of
// functions are parsed when a kernel needs them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/syntax/lexer.hpp"
#include "emulator/syntax/memory_charge.hpp"

namespace emu::syntax {

/// Position in a source, as .loc names it.
struct SourcePosition {
  int file = 0;  // number in Module::files; 0: unknown
  int line = 0;
  int column = 0;

  friend auto operator<=>(const SourcePosition&, const SourcePosition&) = default;
};

/// Position that the compiler's debug information gives for instructions, and the call in whose
/// place they were inlined.
struct SourcePlace {
  SourcePosition position{};
  int caller = -1;  // number in Function::calls; -1: not inlined
};

enum class OperandKind : std::uint8_t {
  kRegister,   // `index` in Function::registers
  kSpecial,    // `name`, such as "%tid.x"
  kInteger,    // value in `bits`
  kFloat,      // value in `bits`, as binary64
  kSingle,     // value in `bits`, as binary32
  kSymbol,     // `name` of a variable, a parameter or a function, plus `offset`; `index` is the
               // number of the function's own symbol, or -1
  kLabel,      // `index` of the instruction after the label
  kTargets,    // `index` of the list in Function::branch_targets
  kPrototype,  // the name of a .callprototype or .calltargets
  kVector,     // `parts` of {a, b, ...}
  kList,       // `parts` of (a, b, ...), the arguments or results of a call
  kAddress,    // `parts` of [base], or of [base, {coordinates}]; `offset` is added to the base
  kPair,       // `parts` of a|b
  kSink,       // the operand _
};

struct Operand {
  OperandKind kind = OperandKind::kSink;
  bool is_negated = false;  // the operand is !p
  bool has_minus = false;   // the operand is -r
  int index = -1;
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::string name{};
  std::string selector{};  // "h1" of the register operand r.h1
  std::vector<Operand> parts{};
};

struct Instruction {
  std::string opcode;  // with modifiers: "ld.global.v4.u32"
  int line = 0;        // line of the PTX
  SourcePlace source{};
  int guard = -1;  // register of the guard predicate; -1: none
  bool is_guard_negated = false;
  std::vector<Operand> operands{};
};

struct Register {
  std::string name;
  int bits = 0;  // 1 for a predicate
};

enum class Space : std::uint8_t { kGlobal, kConstant, kShared, kLocal, kParameter, kRegister };

/// An address in a variable's initial value.
struct Relocation {
  std::size_t offset = 0;  // place in the initial value
  std::size_t bytes = 8;
  std::string symbol;  // variable or function
  std::int64_t addend = 0;
  unsigned shift = 0;  // the lowest bit of the address that is stored
  int line = 0;
};

struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  std::size_t alignment = 1;
  std::size_t bytes = 0;             // 0: the launch determines the size (extern .shared)
  std::size_t offset = 0;            // offset of a parameter in its space; the index of a register
  std::vector<std::byte> initial{};  // initial value of a global variable; empty: zeros
  std::vector<Relocation> relocations{};
  std::string type{};  // of an element: "u64"
  bool is_array = false;
  bool is_pointer = false;  // a parameter with .ptr
  std::string refusal{};  // why a kernel that uses the variable is refused; empty: it is supported
};

/// A kernel (.entry) or a function that is called (.func).
struct Function {
  std::string name;
  int line = 0;
  bool is_kernel = true;
  bool is_defined = false;           // it has a body
  bool blocks_are_clusters = false;  // .blocksareclusters
  TextBlock body{};
  std::string refusal{};            // why it is refused; empty: it may be supported
  std::vector<Variable> results{};  // of a function that is called
  std::vector<Variable> parameters{};
  std::size_t parameter_bytes = 0;
  std::array<std::uint32_t, 3> max_threads{};       // .maxntid; zeros: not given
  std::array<std::uint32_t, 3> required_threads{};  // .reqntid
  std::array<std::uint32_t, 3> required_cluster{};  // .reqnctapercluster
  int max_registers = 0;                            // .maxnreg
  std::uint32_t min_blocks = 0;                     // .minnctapersm
  // What is in the body; empty until it is parsed.
  std::vector<Register> registers{};
  std::vector<Variable> variables{};  // .shared and .local, and .param of calls
  std::size_t call_bytes = 0;         // size of the .param of calls, which share places
  std::vector<std::vector<int>> branch_targets{};
  std::vector<Instruction> instructions{};
  std::vector<SourcePlace> calls{};  // those in whose place something was inlined

  /// The function's own symbol of a number: its parameters come first, then its results, then its
  /// variables.
  [[nodiscard]] const Variable& symbol(std::size_t number) const {
    const std::size_t before = parameters.size() + results.size();
    return number < parameters.size() ? parameters[number]
           : number < before          ? results[number - parameters.size()]
                                      : variables[number - before];
  }
  [[nodiscard]] std::size_t symbol_count() const {
    return parameters.size() + results.size() + variables.size();
  }
};

struct Module {
  int version_major = 0;
  int version_minor = 0;
  std::string target{};  // "sm_90a"
  std::vector<Variable> variables{};
  std::map<std::string, std::size_t, std::less<>> variable_numbers{};  // by their names
  std::vector<Function> kernels{};
  std::map<std::string, Function, std::less<>> functions{};  // those that are called
  std::map<std::string, std::string, std::less<>> aliases{};
  std::vector<std::string> files{};  // by the number of .file; [0] is empty

  /// Finds a function by its name or an alias; null if there is none.
  [[nodiscard]] const Function* find_function(std::string_view name) const;
};

/// Rounds up to a multiple of the alignment. Neither argument is near 2^64 (syntax/limits.hpp).
constexpr std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Parses a module without the bodies of its functions. The text must outlive the module. Throws
/// emu::Error, with the line, for invalid or unsupported PTX, and TooLarge where it takes more
/// memory than allowed.
Module parse(std::string_view text, MemoryCharge& memory);
/// Parses the body of a function of the module, and returns the whole function.
Function parse_body(const Module& module, const Function& function, MemoryCharge& memory);

}  // namespace emu::syntax
