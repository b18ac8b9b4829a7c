// A PTX module as it is written: functions, registers, instructions with their operands, names
// resolved.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emu::syntax {

/// The line of the source that the compiler names for an instruction, and the call into which it
/// was inlined.
struct SourcePlace {
  int file = 0;  // number in Module::files; 0: not known
  int line = 0;
  int inlined_file = 0;
  int inlined_line = 0;
};

enum class OperandKind : std::uint8_t {
  kRegister,  // index: in Function::registers
  kSpecial,   // name: "%tid.x"
  kInteger,   // bits
  kFloat,     // bits: of binary64
  kSingle,    // bits: of binary32
  kSymbol,    // name of a variable or a parameter, plus offset
  kLabel,     // index: of the instruction it stands before
  kVector,    // parts: {a, b, ...}
  kAddress,   // parts: [base], or [base, {coordinates}]; offset is added to the base
  kPair,      // parts: a|b
  kSink,      // _
};

struct Operand {
  OperandKind kind = OperandKind::kSink;
  bool is_negated = false;  // !p
  int index = -1;
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::string name{};
  std::vector<Operand> parts{};
};

struct Instruction {
  std::string opcode;  // with its modifiers: "ld.global.v4.u32"
  int line = 0;        // of the PTX
  SourcePlace source{};
  int guard = -1;  // the predicate's register; -1: none
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
  std::size_t bytes = 0;             // 0: as many as the launch says (extern .shared)
  std::size_t offset = 0;            // of a parameter, among the others
  std::vector<std::byte> initial{};  // of a global: empty for zeros
};

struct Function {
  std::string name;
  int line = 0;
  std::vector<Variable> parameters{};
  std::size_t parameter_bytes = 0;
  std::array<std::uint32_t, 3> most_threads{};      // .maxntid; zeros: not said
  std::array<std::uint32_t, 3> required_threads{};  // .reqntid
  std::array<std::uint32_t, 3> required_cluster{};  // .reqnctapercluster
  int most_registers = 0;                           // .maxnreg
  std::uint32_t least_blocks = 0;                   // .minnctapersm
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
  std::size_t memory_bytes = 0;      // that it and its variables take, roughly
};

/// The least multiple of the alignment that is no less. Neither is near the end of 64 bits
/// (syntax/limits.hpp).
constexpr std::size_t aligned(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Reads a module. Throws emu::Error, with the line, for what is no PTX, or none that the emulator
/// knows, or where it takes more memory than `most_bytes`.
Module parse(std::string_view text, std::size_t most_bytes);

}  // namespace emu::syntax
