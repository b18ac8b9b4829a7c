// A parsed PTX module: functions, registers and instructions, with resolved names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emu::syntax {

/// Source line that the compiler's debug information gives for an instruction, and the call into
/// which it was inlined.
struct SourcePlace {
  int file = 0;  // number in Module::files; 0: unknown
  int line = 0;
  int inlined_file = 0;
  int inlined_line = 0;
};

enum class OperandKind : std::uint8_t {
  kRegister,  // `index` in Function::registers
  kSpecial,   // `name`, such as "%tid.x"
  kInteger,   // value in `bits`
  kFloat,     // value in `bits`, as binary64
  kSingle,    // value in `bits`, as binary32
  kSymbol,    // `name` of a variable or a parameter, plus `offset`
  kLabel,     // `index` of the instruction after the label
  kVector,    // `parts` of {a, b, ...}
  kAddress,   // `parts` of [base], or of [base, {coordinates}]; `offset` is added to the base
  kPair,      // `parts` of a|b
  kSink,      // the operand _
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

enum class Space : std::uint8_t { kGlobal, kConstant, kShared, kLocal, kParameter };

struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  std::size_t alignment = 1;
  std::size_t bytes = 0;             // 0: the launch determines the size (extern .shared)
  std::size_t offset = 0;            // offset of a parameter in the parameter space
  std::vector<std::byte> initial{};  // initial value of a global variable; empty: zeros
};

struct Function {
  std::string name;
  int line = 0;
  std::vector<Variable> parameters{};
  std::size_t parameter_bytes = 0;
  std::array<std::uint32_t, 3> max_threads{};       // .maxntid; zeros: not given
  std::array<std::uint32_t, 3> required_threads{};  // .reqntid
  std::array<std::uint32_t, 3> required_cluster{};  // .reqnctapercluster
  int max_registers = 0;                            // .maxnreg
  std::uint32_t min_blocks = 0;                     // .minnctapersm
  std::vector<Register> registers{};
  std::vector<Variable> variables{};  // .shared and .local of the function
  std::vector<Instruction> instructions{};
};

struct Module {
  int version_major = 0;
  int version_minor = 0;
  std::string target{};  // "sm_90a"
  std::vector<Variable> variables{};
  std::vector<Function> kernels{};
  std::vector<std::string> files{};  // by the number of .file; [0] is empty
  std::size_t memory_bytes = 0;      // estimated memory of the module and its variables
};

/// Rounds up to a multiple of the alignment. Neither argument is near 2^64 (syntax/limits.hpp).
constexpr std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Parses a module. Throws emu::Error, with the line, for invalid or unsupported PTX, and for a
/// module that takes more memory than `max_bytes`.
Module parse(std::string_view text, std::size_t max_bytes);

}  // namespace emu::syntax
