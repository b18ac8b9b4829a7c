// Addresses: numbers that stand for memory of the host or of a device.
#pragma once

#include <cstdint>

namespace fovea {

/// An address in the memory of whoever computes. The host cannot read a GPU's.
using Address = std::uint64_t;

template <typename T>
[[nodiscard]] T* pointer(Address address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

[[nodiscard]] inline Address address_of(const void* memory) {
  return reinterpret_cast<Address>(memory);
}

}  // namespace fovea
