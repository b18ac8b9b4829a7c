// Findings: errors that the emulator detects in a kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] emu {

enum class FindingKind : std::uint8_t {
  kOutOfBounds,    // an access outside of allocated memory
  kMisaligned,     // an address that is not a multiple of the access's size
  kUninitialized,  // an uninitialised value is stored, or used for an address or a decision
  kDivergent,      // lanes that must execute an instruction together have diverged
  kBarrierMisuse,  // a barrier or mbarrier is used incorrectly
  kRegisterRace,   // registers of a wgmma are accessed without the required wgmma.fence or wait
  kLifetime,  // shared or tensor memory is used after the end of its block, or never deallocated
  kIllegalOperand,    // a value that the instruction does not allow
  kIllegalTensorMap,  // the tensor map is not valid, or not valid for the instruction
  kDeadlock,          // no warp can make progress
  kNoProgress,        // the limit of operations was reached
  kTrap,              // the kernel executed trap
  kRace,              // two accesses to memory that no synchronisation orders
  kNoProxyFence,   // the asynchronous proxy accesses generic writes without a proxy fence between
  kNoTensorFence,  // accesses to tensor memory are ordered, but without tcgen05.fence between
  kAssertion,      // an assertion of the kernel does not hold
};

/// Returns the name of a kind, such as "out of bounds".
std::string_view name_of(FindingKind kind);
/// Returns the kind of this name.
std::optional<FindingKind> kind_called(std::string_view name);

/// Returns the name of a symbol as in the source: "ns::saxpy<4>(int)" for a mangled C++ name, and
/// any other name as it is. One of more than `max_characters`, or that cannot be told as a whole,
/// has a hash of the symbol for its template arguments and types: "ns::saxpy<#1b2c3d4e>".
std::string source_name(const std::string& symbol, std::size_t max_characters = 500);

/// Earlier access with which the reported one conflicts.
struct EarlierAccess {
  std::string kernel{};
  std::string instruction{};
  int line = 0;
  std::string source{};
  std::array<std::uint32_t, 3> block{};
  int warp = -1;
};

struct Finding {
  FindingKind kind = FindingKind::kTrap;
  std::string message;        // description, with addresses and values
  std::string kernel{};       // as in the source
  std::string instruction{};  // opcode
  int line = 0;               // line of the PTX
  /// "file.cu:12 (inlined at file.cu:34) (inside cuda_fp16.hpp:56)", if the PTX has line
  /// information: the innermost line outside of the CUDA toolkit's headers, the calls in whose
  /// place it was inlined, and the lines of these headers that were inlined there.
  std::string source{};
  std::array<std::uint32_t, 3> block{};
  int warp = -1;
  std::uint32_t lanes = 0;   // mask of the lanes concerned
  std::uint64_t global = 0;  // address in global memory that the finding is about; 0: none
  std::string place{};       // element that it is about, such as "tile[17]", if that is known
  std::optional<EarlierAccess> other{};  // the other access of a race
  std::uint64_t count = 1;               // number of times that it was found at the same lines

  /// Formats the finding as one line: description, source, block, warp and lanes; for a race, both
  /// accesses.
  [[nodiscard]] std::string text() const;
};

/// Findings to leave out: of a kind, at a line.
struct IgnoredFinding {
  std::optional<FindingKind> kind{};  // without it, of every kind
  int line = 0;                       // of the PTX, of either access; 0: every line
  std::string source{};               // "file.cu:12", instead of a line of the PTX
};

/// Whether a run can go on behind findings of this kind. Findings of other kinds end the run.
[[nodiscard]] bool can_go_on_behind(FindingKind kind);

/// Policies of the scheduler. Each exposes another kind of error.
enum class Policy : std::uint8_t {
  kFromSeed,    // one of the others, chosen by the seed
  kUniform,     // all warps in turn
  kPriorities,  // the ready warp of highest priority runs as long as it can; priorities seldom
                // change
  kEager,       // copies and products run as soon as they are started
  kLazy,        // copies and products run only when no warp can make progress without them
  kStarve,      // one warp runs only when no other can
};

/// Returns the name of a policy, such as "lazy".
std::string_view name_of(Policy policy);

/// Result of a run.
struct Report {
  std::vector<Finding> findings{};
  Policy policy = Policy::kUniform;  // policy of the run; never kFromSeed
  std::uint64_t steps = 0;           // number of operations that warps executed
  std::string printed{};             // text that the kernels have printed, at most 1 MiB
  std::uint64_t ignored = 0;         // number of findings that RunOptions::ignored has left out
  std::vector<std::uint64_t> ignored_by{};  // by each of them; several may leave out the same
  bool has_ended = false;                   // all grids have run to their ends

  [[nodiscard]] bool is_clean() const { return findings.empty(); }
};

}  // namespace emu
