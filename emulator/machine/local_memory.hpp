// Local memory of a warp's lanes: variables of the kernel, and a stack for those of its calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "emulator/program/lanes.hpp"

namespace emu {

/// Each lane has the bytes from 0 to its top.
class LocalMemory {
 public:
  explicit LocalMemory(std::size_t bytes);

  [[nodiscard]] bool contains(int lane, std::uint64_t address, std::size_t bytes) const {
    const std::size_t size = top(lane);
    return address <= size && bytes <= size - address;
  }
  /// The byte at an address, and whether it is initialised.
  [[nodiscard]] std::byte* byte(int lane, std::uint64_t address) {
    return bytes_.data() + index(lane, address);
  }
  [[nodiscard]] std::uint8_t* written(int lane, std::uint64_t address) {
    return is_written_.data() + index(lane, address);
  }

  /// The address of a byte that byte() has returned; nothing if it is not in the lane's memory.
  [[nodiscard]] std::optional<std::uint64_t> address_of(int lane, const std::byte* byte) const {
    const std::byte* const first = bytes_.data() + index(lane, 0);
    const std::byte* const end = first + top(lane);
    const std::less<> is_before;
    return is_before(byte, first) || !is_before(byte, end)
               ? std::nullopt
               : std::optional(static_cast<std::uint64_t>(byte - first));
  }

  [[nodiscard]] std::size_t top(int lane) const { return tops_[static_cast<std::size_t>(lane)]; }
  /// Moves a lane's top; new bytes are not initialised. Pointers to bytes are invalid afterwards.
  void set_top(int lane, std::size_t top);

 private:
  [[nodiscard]] std::size_t index(int lane, std::uint64_t address) const {
    return static_cast<std::size_t>(lane) * capacity_ + address;
  }
  void grow(std::size_t capacity);

  std::size_t capacity_;  // bytes of each lane in the vectors
  std::array<std::size_t, kLanes> tops_{};
  std::vector<std::byte> bytes_;
  std::vector<std::uint8_t> is_written_;
};

}  // namespace emu
