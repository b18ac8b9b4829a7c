// What the emulator finds wrong with a kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] emu {

enum class FindingKind : std::uint8_t {
  kOutOfBounds,       // an access outside of what was allocated
  kMisaligned,        // an address that is no multiple of the access's size
  kUninitialized,     // a value that nothing wrote decides what happens, or is stored
  kDivergent,         // lanes that must run an instruction together are not together
  kBarrierMisuse,     // a barrier's rules are broken
  kRegisterRace,      // registers of a wgmma are touched out of order
  kLifetime,          // what it needs has ended
  kIllegalOperand,    // a value that the instruction does not allow
  kIllegalTensorMap,  // what should be a tensor map is none, or none for the instruction
  kDeadlock,          // no warp can make progress
  kNoProgress,        // it runs on and on
  kTrap,              // the kernel itself gave up
  kRace,              // two accesses to memory that no synchronisation orders
  kNoProxyFence,      // the asynchronous proxy accesses what was written with no fence behind it
  kNoTensorFence,     // tensor memory is accessed in order, but with no tcgen05.fence on the way
};

/// "out of bounds"
std::string_view name_of(FindingKind kind);

/// An access that was made before, which the one that is wrong must not meet.
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
  std::string message;  // what, with addresses and values
  std::string kernel{};
  std::string instruction{};  // its opcode
  int line = 0;               // of the PTX
  std::string source{};       // "file.cuh:12", where the compiler tells
  std::array<std::uint32_t, 3> block{};
  int warp = -1;
  std::uint32_t lanes = 0;   // those it happened to
  std::uint64_t global = 0;  // the address in global memory that it is about; 0: about none
  std::optional<EarlierAccess> other{};  // of races

  /// One line: what, where in the source, which block, warp and lanes; of a race, both accesses.
  [[nodiscard]] std::string text() const;
};

/// Policies of the scheduler. Each is a way to meet another kind of mistake.
enum class Policy : std::uint8_t {
  kFromSeed,    // the seed chooses one of the others
  kUniform,     // all warps in turns
  kPriorities,  // the first of an order that seldom changes runs as long as it can
  kEager,       // copies and products are made as soon as they are started
  kLazy,        // copies and products are made when no warp can make progress without them
  kStarve,      // one warp runs when no other can
};

/// "lazy"
std::string_view name_of(Policy policy);

/// What became of a run.
struct Report {
  std::vector<Finding> findings{};
  Policy policy = Policy::kUniform;  // that the seed chose
  std::uint64_t steps = 0;           // operations of warps that were run

  [[nodiscard]] bool is_clean() const { return findings.empty(); }
};

}  // namespace emu
