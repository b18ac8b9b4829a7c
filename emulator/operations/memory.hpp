// Address resolution: maps a lane's address to host memory and checks that the lane may access it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "emulator/machine/warp.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

struct Allocation;

enum class MemorySpace : std::uint8_t {
  kGeneric,
  kGlobal,
  kShared,         // the block's own shared memory
  kClusterShared,  // shared memory of any block of the cluster
  kLocal,
  kParameter
};

/// Host memory of bytes that a lane accesses.
struct Memory {
  std::byte* bytes = nullptr;
  std::uint8_t* written = nullptr;   // initialisation flag per byte; null: the bytes are parameters
  Block* block = nullptr;            // the block, for shared memory
  Allocation* allocation = nullptr;  // the allocation, for global memory

  [[nodiscard]] bool is_written(std::size_t first, std::size_t count) const {
    return written == nullptr || std::all_of(written + first, written + first + count,
                                             [](std::uint8_t is) { return is == 1; });
  }
  /// Bits of an element of at most 8 bytes that were written.
  [[nodiscard]] std::uint64_t written_bits(std::size_t first, std::size_t count) const {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < count; ++i) {
      bits |= is_written(first + i, 1) ? std::uint64_t{0xFF} << 8 * i : 0;
    }
    return bits;
  }
  void set_written(std::size_t first, std::size_t count, bool value) const {
    if (written != nullptr) {
      std::memset(written + first, value ? 1 : 0, count);
    }
  }
};

/// Ends the run with a finding if the lane may not access the bytes, or the address is not a
/// multiple of their number.
Memory resolve(Warp& warp, const Op& op, int lane, MemorySpace space, std::uint64_t address,
               std::size_t bytes);

/// Resolves bytes at an address of any alignment.
Memory resolve_unaligned(Warp& warp, const Op& op, int lane, MemorySpace space,
                         std::uint64_t address, std::size_t bytes);

/// Ends the run with a finding if the bytes at this address are the kernel's parameters or a .const
/// variable, which no lane may write.
void require_writable(const Warp& warp, const Op& op, Lanes lanes, const Memory& memory,
                      std::uint64_t address);

/// Resolves bytes that the lane writes.
inline Memory resolve_written(Warp& warp, const Op& op, int lane, MemorySpace space,
                              std::uint64_t address, std::size_t bytes) {
  const Memory memory = resolve(warp, op, lane, space, address, bytes);
  require_writable(warp, op, lane_bit(lane), memory, address);
  return memory;
}

/// Resolves bytes that must be in the block's own shared memory; otherwise ends the run with a
/// finding of this kind.
inline Memory resolve_own_shared(Warp& warp, const Op& op, int lane, MemorySpace space,
                                 std::uint64_t address, std::size_t bytes, FindingKind kind) {
  const Memory memory = resolve(warp, op, lane, space, address, bytes);
  if (memory.block != &warp.block()) {
    warp.stop(kind, op, lane_bit(lane),
              fmt::format("{:#x} is not in the block's own shared memory", address));
  }
  return memory;
}

/// Takes .shared, .shared::cta or .shared::cluster; returns kGeneric if none is present.
MemorySpace take_shared_space(Decoder& decoder);
/// Takes .shared or .shared::cta; fails if neither is present.
void require_shared(Decoder& decoder);

/// Takes .cta, .cluster, .gpu or .sys; returns kNone if none is present.
races::Scope take_scope(Decoder& decoder);
/// The same; fails if none is present.
races::Scope require_scope(Decoder& decoder);
/// Takes the order of a strong access (.relaxed, .acquire, .release or .acq_rel, of those that are
/// allowed) and its scope. Without an order the access is weak, or relaxed if it `is_atomic`.
races::StrongAccess take_order(Decoder& decoder, bool may_acquire, bool may_release,
                               bool is_atomic);

/// Takes cache operators and hints, which have no effect here; returns whether one has an operand.
bool take_cache_hints(Decoder& decoder, bool is_load);

/// Reports, if RunOptions::check_stored_values, that lanes store an uninitialised value to this
/// address in global memory.
void report_uninitialized_store(const Warp& warp, const Op& op, Lanes lanes, std::uint64_t address);

/// Counts the passes of an ld or st. Global memory: the 128-byte lines that the lanes touch. Shared
/// memory: wavefronts over 32 banks of four bytes, each of which serves one word at a time, for
/// groups of lanes that access 128 bytes. Returns 0 for other memory and operations.
std::uint32_t passes_of_access(const Warp& warp, const Op& op, Lanes lanes);

/// Returns a lane's address, including the operand's offset.
inline std::uint64_t address_of(const Warp& warp, const AddressOperand& address, int lane) {
  const std::uint64_t base = address.bits == 32 ? warp.read_lane<std::uint32_t>(address.slot, lane)
                                                : warp.read_lane<std::uint64_t>(address.slot, lane);
  return base + static_cast<std::uint64_t>(address.offset);
}

}  // namespace emu
