// Global memory: allocations with gaps between them, and the initialisation state of each byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "emulator/program/address_space.hpp"
#include "emulator/races/global_shadow.hpp"
#include "emulator/races/races.hpp"

namespace emu {

struct Allocation {
  std::uint64_t address = 0;
  std::vector<std::byte> bytes{};
  std::vector<std::uint8_t> is_written{};  // per byte: 0 or 1
  bool is_constant = false;                // a .const variable, which kernels do not write
  races::GlobalShadow shadow{};
  races::Locations locations{};

  [[nodiscard]] bool contains(std::uint64_t first, std::size_t count) const {
    const std::uint64_t offset = first - address;
    return first >= address && offset <= bytes.size() && count <= bytes.size() - offset;
  }
};

class GlobalMemory {
 public:
  GlobalMemory() = default;
  /// Copies the memory without the race detector's shadows: no access has been made to the copy
  /// yet.
  GlobalMemory(const GlobalMemory& other);
  GlobalMemory& operator=(const GlobalMemory&) = delete;

  std::uint64_t allocate(std::size_t bytes, std::size_t alignment = 256);
  /// Allocates memory at an address of the caller's choice; false if other memory is there.
  bool allocate_at(std::uint64_t address, std::size_t bytes);
  /// Frees an allocation; false if there is none at the address.
  bool free(std::uint64_t address);
  /// Finds the allocation that contains all these bytes; null if there is none.
  [[nodiscard]] Allocation* find(std::uint64_t address, std::size_t bytes);
  [[nodiscard]] const Allocation* find(std::uint64_t address, std::size_t bytes) const;
  /// Total size of all allocations, in bytes.
  [[nodiscard]] std::size_t bytes() const;
  /// Clears the race detector's shadows at the beginning of a run.
  void clear_shadows();

 private:
  std::map<std::uint64_t, Allocation> allocations_;
  std::uint64_t next_ = kFirstGlobalAddress;
  Allocation* last_found_ = nullptr;  // cache of the most recent result of find()
};

}  // namespace emu
