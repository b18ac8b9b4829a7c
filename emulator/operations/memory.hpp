// Where an address of a lane is in the host's memory, and whether it may be touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/machine/warp.hpp"

namespace emu {

enum class MemorySpace : std::uint8_t { kGeneric, kGlobal, kShared, kLocal, kParameter };

/// Bytes that a lane accesses.
struct Memory {
  std::byte* bytes = nullptr;
  std::vector<bool>* written = nullptr;  // null: all of it is
  std::uint64_t offset = 0;              // of the bytes, in `written`

  [[nodiscard]] bool is_written(std::size_t first, std::size_t count) const {
    for (std::size_t i = 0; written != nullptr && i < count; ++i) {
      if (!(*written)[offset + first + i]) {
        return false;
      }
    }
    return true;
  }
  void set_written(std::size_t first, std::size_t count, bool value) const {
    for (std::size_t i = 0; written != nullptr && i < count; ++i) {
      (*written)[offset + first + i] = value;
    }
  }
};

/// Ends the run with a finding where the bytes are not the lane's to access, or the address is no
/// multiple of their number.
Memory resolve(Warp& warp, const Op& op, int lane, MemorySpace space, std::uint64_t address,
               std::size_t bytes);

/// Likewise of bytes that may begin anywhere.
Memory resolve_unaligned(Warp& warp, const Op& op, int lane, MemorySpace space,
                         std::uint64_t address, std::size_t bytes);

/// A lane's address, from a register of 32 or 64 bits.
std::uint64_t address_of(const Warp& warp, Slot slot, int bits, int lane);

}  // namespace emu
