// The device's memory: allocations with gaps between them, and which bytes were ever written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "emulator/races/global_shadow.hpp"

namespace emu {

struct Allocation {
  std::uint64_t address = 0;
  std::vector<std::byte> bytes{};
  std::vector<std::uint8_t> is_written{};  // of each byte: 0 or 1
  races::GlobalShadow shadow{};

  [[nodiscard]] bool holds(std::uint64_t first, std::size_t count) const {
    const std::uint64_t offset = first - address;
    return first >= address && offset <= bytes.size() && count <= bytes.size() - offset;
  }
};

class GlobalMemory {
 public:
  GlobalMemory() = default;
  /// Copies the memory, without its shadows: no access was made to the copy yet.
  GlobalMemory(const GlobalMemory& other);
  GlobalMemory& operator=(const GlobalMemory&) = delete;

  std::uint64_t allocate(std::size_t bytes, std::size_t alignment = 256);
  /// False: there is no such allocation.
  bool free(std::uint64_t address);
  /// Finds the allocation that holds all these bytes; null: none does.
  [[nodiscard]] Allocation* find(std::uint64_t address, std::size_t bytes);
  [[nodiscard]] const Allocation* find(std::uint64_t address, std::size_t bytes) const;
  /// Bytes of all allocations.
  [[nodiscard]] std::size_t bytes() const;
  /// Begins a run, before which all accesses so far happen.
  void clear_shadows();

 private:
  std::map<std::uint64_t, Allocation> allocations_;
  std::uint64_t next_ = 0x10'0000'0000;
  Allocation* last_ = nullptr;  // cache of the last one that was found
};

}  // namespace emu
