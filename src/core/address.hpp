// Address: an integer that stands for an address in host or device memory.
#pragma once

#include <cstdint>

namespace fovea {

/// An address in the memory of the device that computes. The host cannot dereference those of a
/// GPU.
using Address = std::uint64_t;

template <typename T>
[[nodiscard]] T* pointer(Address address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

[[nodiscard]] inline Address address_of(const void* memory) {
  return reinterpret_cast<Address>(memory);
}

}  // namespace fovea
