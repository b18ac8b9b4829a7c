// Places beside memory that has a name: "8 bytes behind the end of x, which has 400 bytes".
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace fovea::emulation {

struct NamedMemory {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::string name{};

  [[nodiscard]] bool contains(std::uint64_t address) const {
    return address >= begin && address - begin < bytes;
  }
};

/// Describes an address just before the memory or behind it; returns "" for any other.
inline std::string text_beside(const NamedMemory& memory, std::uint64_t address) {
  constexpr std::uint64_t kNear = 4096;  // smaller than the gap between allocations
  const std::uint64_t end = memory.begin + memory.bytes;
  if (address >= end && address - end < kNear) {
    return fmt::format("{} bytes behind the end of {}, which has {} bytes", address - end,
                       memory.name, memory.bytes);
  }
  if (address < memory.begin && memory.begin - address <= kNear) {
    return fmt::format("{} bytes before the beginning of {}", memory.begin - address, memory.name);
  }
  return "";
}

}  // namespace fovea::emulation
