// Resolves an address of a lane to the host's memory, and checks that the lane may access it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulator/machine/warp.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

struct Allocation;

enum class MemorySpace : std::uint8_t {
  kGeneric,
  kGlobal,
  kShared,         // of the block alone
  kClusterShared,  // of any block of the cluster
  kLocal,
  kParameter
};

/// Bytes that a lane accesses.
struct Memory {
  std::byte* bytes = nullptr;
  std::uint8_t* written = nullptr;   // of each byte; null: all of it is
  Block* block = nullptr;            // whose shared memory it is
  Allocation* allocation = nullptr;  // of global memory

  [[nodiscard]] bool is_written(std::size_t first, std::size_t count) const {
    return written == nullptr || std::all_of(written + first, written + first + count,
                                             [](std::uint8_t is) { return is == 1; });
  }
  void set_written(std::size_t first, std::size_t count, bool value) const {
    if (written != nullptr) {
      std::memset(written + first, value ? 1 : 0, count);
    }
  }
};

/// Ends the run with a finding where the bytes are not the lane's to access, or the address is no
/// multiple of their number.
Memory resolve(Warp& warp, const Op& op, int lane, MemorySpace space, std::uint64_t address,
               std::size_t bytes);

/// Resolves bytes that may begin anywhere.
Memory resolve_unaligned(Warp& warp, const Op& op, int lane, MemorySpace space,
                         std::uint64_t address, std::size_t bytes);

/// Takes .shared, .shared::cta or .shared::cluster; generic: none of them is there.
MemorySpace take_shared_space(Decoder& decoder);
/// Takes .shared or .shared::cta; fails if neither is there.
void require_shared(Decoder& decoder);

/// Ends the run with a finding, where that is looked for: what lanes store to this address in
/// global memory was never written.
void check_stored(const Warp& warp, const Op& op, Lanes lanes, std::uint64_t address);

/// Passes of an ld or st: how many lines of 128 bytes of global memory the lanes touch, or rows of
/// the banks of shared memory, one after the other: 32 banks of four bytes, of which each gives one
/// word at a time, for as many lanes as 128 bytes are. 0 of other memory and operations.
std::uint32_t passes_of_access(const Warp& warp, const Op& op, Lanes lanes);

/// A lane's address, with the operand's offset.
inline std::uint64_t address_of(const Warp& warp, const AddressOperand& address, int lane) {
  const std::uint64_t base = address.bits == 32 ? warp.read_lane<std::uint32_t>(address.slot, lane)
                                                : warp.read_lane<std::uint64_t>(address.slot, lane);
  return base + static_cast<std::uint64_t>(address.offset);
}

}  // namespace emu
