// kernels/ptx/memory.cuh on the host.
#pragma once

#include "machine/machine.hpp"

namespace fovea::ptx {

template <typename Value>
Value load_shared(std::uint32_t address) {
  Value value;
  std::memcpy(&value, machine::shared(address, sizeof(value)), sizeof(value));
  return value;
}
template <typename Value>
void store_global(void* to, const Value& value) {
  machine::require_aligned(reinterpret_cast<std::uintptr_t>(to), sizeof(value));
  std::memcpy(to, &value, sizeof(value));
}

inline void st_shared(std::uint32_t address, std::uint32_t value) {
  std::memcpy(machine::shared(address, sizeof(value)), &value, sizeof(value));
}
inline std::uint32_t ld_shared(std::uint32_t address) {
  return load_shared<std::uint32_t>(address);
}
inline uint4 ld_shared_v4(std::uint32_t address) {
  return load_shared<uint4>(address);
}
inline void st_global(void* to, std::uint32_t value) {
  store_global(to, value);
}
inline void st_global_v4(void* to, std::uint32_t x, std::uint32_t y, std::uint32_t z,
                         std::uint32_t w) {
  store_global(to, uint4{x, y, z, w});
}

}  // namespace fovea::ptx
