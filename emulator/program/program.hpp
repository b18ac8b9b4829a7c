// A decoded kernel: operations with their code, the registers of their operands, and the points of
// reconvergence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/program/details.hpp"
#include "emulator/program/lanes.hpp"
#include "emulator/syntax/module.hpp"

namespace emu {

class Warp;
struct Op;

/// Result of an operation. A blocked operation is tried again later; until then it must not change
/// anything that a retry would change again.
enum class Outcome : std::uint8_t { kDone, kBlocked };

/// Code of an operation, which runs it for these lanes.
using Code = Outcome (*)(Warp& warp, const Op& op, Lanes lanes);

enum class Flow : std::uint8_t { kNext, kBranch, kExit };

/// Offset of a register's values in a warp's register file, in words. The four words before the
/// values are the register's header, the first of which holds the mask of initialised lanes. A
/// predicate's value is one word.
using Slot = std::uint32_t;
constexpr Slot kNoSlot = 0;
constexpr Slot kHeaderWords = 4;

/// Maximum number of operands of an operation, without those in `list`.
constexpr std::size_t kMaxOperands = 6;

/// A register of asynchronous products that an operation accesses.
struct AsyncRegister {
  std::uint32_t number = 0;
  bool is_written = false;
  /// The operation writes a constant. A compiler may move such writes anywhere, so products may
  /// read it as A without a fence.
  bool is_constant = false;
};

/// An operand [base + offset]: the slot and the size of its base.
struct AddressOperand {
  Slot slot = kNoSlot;
  std::uint8_t bits = 64;  // 32 or 64
  std::int64_t offset = 0;
};

struct Op {
  Code code = nullptr;
  Slot guard = kNoSlot;
  Flow flow = Flow::kNext;
  bool is_guard_negated = false;
  bool is_async_product = false;           // wgmma.mma_async: uses registers after issue
  std::array<Slot, kMaxOperands> slots{};  // destinations first, then sources
  /// Registers of asynchronous products that the operation accesses; for such a product, the
  /// registers in its list.
  std::vector<AsyncRegister> async_registers{};
  std::vector<Slot> list{};  // further operands, of instructions with a variable number
  Details details{};         // modifiers, in a struct of the instruction's file
  std::int32_t target = -1;  // branch target
  std::int32_t join = -1;    // operation where diverged lanes join again; -1: not before they exit
  const syntax::Instruction* instruction = nullptr;

  template <typename T>
  [[nodiscard]] const T& get() const {
    return details.get<T>();
  }
};

/// Place of a kernel's parameter or variable in parameter, shared or local memory.
struct Place {
  syntax::Space space = syntax::Space::kShared;
  std::uint64_t address = 0;
};

struct Constant {
  Slot slot = kNoSlot;
  int bits = 0;
  std::uint64_t value = 0;
  bool is_shared_address =
      false;  // the address is relative to the beginning of the block's shared memory
};

struct SpecialRegister {
  Slot slot = kNoSlot;
  std::string name{};
};

/// A variable in shared memory, for findings.
struct SharedVariable {
  std::string name{};
  std::size_t offset = 0;  // in the block's shared memory
  std::size_t bytes = 0;   // of dynamic shared memory, as many as there may be
};

struct Program {
  const syntax::Module* module = nullptr;
  const syntax::Function* function = nullptr;
  std::vector<Op> ops{};
  std::uint32_t register_file_words = 0;
  std::vector<Constant> constants{};
  std::vector<SpecialRegister> specials{};
  std::vector<SharedVariable> shared{};
  std::size_t static_shared_bytes = 0;  // without dynamic shared memory
  std::size_t dynamic_alignment = 1;    // alignment of dynamic shared memory
  std::size_t local_bytes = 0;
  std::uint32_t async_registers = 0;  // number of registers that asynchronous products use
};

struct Operation;

/// Finds the table row of a mnemonic; null if it is not supported.
using FindOperation = const Operation* (*)(std::string_view mnemonic);

/// Decodes a kernel. `global_addresses` maps the module's global variables to addresses. Throws
/// emu::Error, with the line, for an unsupported instruction.
Program decode(const syntax::Module& module, const syntax::Function& function,
               const std::map<std::string, std::uint64_t, std::less<>>& global_addresses,
               FindOperation find_operation);

}  // namespace emu
