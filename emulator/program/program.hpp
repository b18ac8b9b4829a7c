// A decoded kernel with the functions that it calls: operations with their code, the registers of
// their operands, and the points of reconvergence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/program/details.hpp"
#include "emulator/program/lanes.hpp"
#include "emulator/program/special_registers.hpp"
#include "emulator/syntax/module.hpp"

namespace emu {

class Warp;
struct Op;

/// Result of an operation. A blocked operation is tried again later; until then it must not change
/// anything that a retry would change again.
enum class Outcome : std::uint8_t { kDone, kBlocked };

/// Code of an operation, which runs it for these lanes.
using Code = Outcome (*)(Warp& warp, const Op& op, Lanes lanes);

enum class Flow : std::uint8_t {
  kNext,
  kBranch,
  kExit,
  kCall,            // `target` is a number in Program::calls
  kReturn,          // from a function that was called
  kIndirectBranch,  // `target` is a number in Program::branch_targets
};

/// Offset of a register's values in a warp's register file, in words. The four words before the
/// values are the register's header, the first of which holds the mask of initialised lanes. A
/// predicate's value is one word.
using Slot = std::uint32_t;
constexpr Slot kNoSlot = 0;
constexpr Slot kHeaderWords = 4;
/// Words of a register's values in the register file, a multiple of 16 bytes.
constexpr std::uint32_t register_words(int bits) {
  return bits == 1 ? 4 : static_cast<std::uint32_t>(bits) * kLanes / 32;
}

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
  bool orders_clusters = false;            // may order threads of different clusters
  std::array<Slot, kMaxOperands> slots{};  // destinations first, then sources
  /// Registers of asynchronous products that the operation accesses; for such a product, the
  /// registers in its list.
  std::vector<AsyncRegister> async_registers{};
  std::vector<Slot> list{};  // further operands, of instructions with a variable number
  Details details{};         // modifiers, in a struct of the instruction's file
  std::int32_t target = -1;  // branch target, or what `flow` says
  std::int32_t join = -1;    // operation where diverged lanes join again; -1: not before they exit
  const syntax::Instruction* instruction = nullptr;

  template <typename T>
  [[nodiscard]] const T& get() const {
    return details.get<T>();
  }
};

/// Place of a parameter, variable or function.
struct Place {
  syntax::Space space = syntax::Space::kShared;
  std::uint64_t address = 0;
  bool is_in_frame = false;  // the address is relative to the frame of the function's call
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
  int bits = 0;
  SpecialRegisterName name{};
};

/// A variable in shared memory, for findings.
struct SharedVariable {
  std::string name{};
  std::size_t offset = 0;  // in the block's shared memory
  std::size_t bytes = 0;   // of dynamic shared memory, as many as there may be
};

/// Argument or result of a call, or the parameter or result of a function: in a register (or a
/// constant), or in the local memory of the frame of its function's call.
struct PassedValue {
  Slot slot = kNoSlot;
  std::size_t offset = 0;  // in the frame, if there is no slot
  std::size_t bytes = 0;
};

/// An address in the frame of a function's call, which the function reads like a constant.
struct FrameAddress {
  Slot slot = kNoSlot;
  int bits = 64;
  std::uint64_t offset = 0;
};

/// A register that a call of the function from within itself has to save.
struct SavedRegister {
  Slot slot = kNoSlot;
  int bits = 0;
};

/// A kernel or a function that it calls, in a Program.
struct FunctionCode {
  const syntax::Function* function = nullptr;
  std::int32_t entry = 0;       // its first operation
  std::size_t frame_bytes = 0;  // memory of a call: parameters, results and local variables
  std::size_t frame_alignment = 1;
  std::size_t register_bytes = 0;
  std::vector<SavedRegister> registers{};
  std::vector<FrameAddress> addresses{};
  std::vector<PassedValue> parameters{};
  std::vector<PassedValue> results{};
};

struct Call {
  std::int32_t function = -1;  // number in Program::functions; -1: `target` has its address
  Slot target = kNoSlot;
  std::vector<PassedValue> arguments{};
  std::vector<PassedValue> results{};
};

struct Program {
  const syntax::Module* module = nullptr;
  const syntax::Function* function = nullptr;  // the kernel
  std::deque<syntax::Function> bodies{};       // of the kernel and the functions that it calls
  std::vector<FunctionCode> functions{};       // the first is the kernel
  std::map<std::uint64_t, std::int32_t> function_addresses{};  // numbers of functions
  std::vector<Call> calls{};
  std::vector<std::vector<std::int32_t>> branch_targets{};
  std::vector<Op> ops{};
  std::uint32_t register_file_words = 0;
  std::vector<Constant> constants{};
  std::vector<SpecialRegister> specials{};
  std::vector<SharedVariable> shared{};
  std::size_t static_shared_bytes = 0;  // without dynamic shared memory
  std::size_t dynamic_alignment = 1;    // alignment of dynamic shared memory
  std::size_t local_bytes = 0;          // of the kernel; calls need more
  bool orders_clusters = false;         // some operation may order threads of different clusters
  bool has_group_scratch = false;       // it reads %reserved_smem_offset_1
  std::uint32_t async_registers = 0;    // number of registers that asynchronous products use
};

struct Operation;

/// Finds the table row of a mnemonic; null if it is not supported.
using FindOperation = const Operation* (*)(std::string_view mnemonic);

/// Addresses of a module's global variables and functions.
using GlobalAddresses = std::map<std::string, std::uint64_t, std::less<>>;

/// Decodes a kernel with the functions that it calls. Throws emu::Error, with the line, for an
/// unsupported instruction; `memory` is charged with the parsed bodies.
Program decode(const syntax::Module& module, const syntax::Function& kernel,
               const GlobalAddresses& global_addresses, FindOperation find_operation,
               syntax::MemoryCharge& memory);

}  // namespace emu
