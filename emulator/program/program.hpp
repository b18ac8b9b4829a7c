// A kernel decoded once: operations with their code, their operands' places in a warp's registers,
// and where lanes that diverge join again.
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

/// Whether an operation is done. One that is blocked is run again, and changes nothing meanwhile
/// that it would repeat.
enum class Outcome : std::uint8_t { kDone, kBlocked };

/// Code of an operation: runs it for the lanes.
using Code = Outcome (*)(Warp& warp, const Op& op, Lanes lanes);

enum class Flow : std::uint8_t { kNext, kBranch, kExit };

/// Place of a register: words of a warp's register file. Before its values stand four words, of
/// which the first holds the lanes whose value is initialised. A predicate's value is one word.
using Slot = std::uint32_t;
constexpr Slot kNoSlot = 0;
constexpr Slot kHeaderWords = 4;

/// Maximum number of operands of an operation, but for those in `list`.
constexpr std::size_t kMaxOperands = 6;

/// A register of asynchronous products that an operation touches.
struct AsyncRegister {
  std::uint32_t number = 0;
  bool is_written = false;
  /// Written with a constant, which the compiler may do anywhere: it sees to it that products of A
  /// have it.
  bool is_constant = false;
};

/// An operand [base + offset]: the slot of its base, and how many bits that has.
struct AddressOperand {
  Slot slot = kNoSlot;
  std::uint8_t bits = 64;  // or 32
  std::int64_t offset = 0;
};

struct Op {
  Code code = nullptr;
  Slot guard = kNoSlot;
  Flow flow = Flow::kNext;
  bool is_guard_negated = false;
  bool is_async_product = false;  // wgmma.mma_async: it uses registers after it has been issued
  std::array<Slot, kMaxOperands> slots{};  // destinations first, then sources
  /// Registers of asynchronous products that it touches; of such a product itself, those of its
  /// list.
  std::vector<AsyncRegister> async_registers{};
  std::vector<Slot> list{};  // operands beyond `slots`, or of a number that the instruction says
  Details details{};         // what its modifiers say, in a struct of the instruction's own
  std::int32_t target = -1;  // of a branch
  std::int32_t join = -1;    // where lanes that part here join again; -1: nowhere before they exit
  const syntax::Instruction* instruction = nullptr;

  template <typename T>
  [[nodiscard]] const T& get() const {
    return details.get<T>();
  }
};

/// A kernel's parameter or variable in shared or local memory.
struct Place {
  syntax::Space space = syntax::Space::kShared;
  std::uint64_t address = 0;
};

struct Constant {
  Slot slot = kNoSlot;
  int bits = 0;
  std::uint64_t value = 0;
  bool is_shared_address = false;  // counts from where the block's shared memory begins
};

struct SpecialRegister {
  Slot slot = kNoSlot;
  std::string name{};
};

struct Program {
  const syntax::Module* module = nullptr;
  const syntax::Function* function = nullptr;
  std::vector<Op> ops{};
  std::uint32_t file_words = 0;
  std::vector<Constant> constants{};
  std::vector<SpecialRegister> specials{};
  std::size_t static_shared_bytes = 0;  // without what the launch adds
  std::size_t dynamic_alignment = 1;    // of what it adds
  std::size_t local_bytes = 0;
  std::uint32_t async_registers = 0;  // that asynchronous products use
};

struct Operation;

/// Finds how instructions of a mnemonic are decoded; null: unsupported.
using FindOperation = const Operation* (*)(std::string_view mnemonic);

/// Decodes a kernel. `global_addresses` says where the module's global variables are. Throws
/// emu::Error, with the line, for an unsupported instruction.
Program decode(const syntax::Module& module, const syntax::Function& function,
               const std::map<std::string, std::uint64_t, std::less<>>& global_addresses,
               FindOperation find_operation);

}  // namespace emu
