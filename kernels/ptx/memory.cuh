// Loads and stores with explicit state spaces (PTX ISA 9.7.9.8, 9.7.9.11).
#pragma once

#include <cstdint>

namespace fovea::ptx {

__device__ __forceinline__ void st_shared(std::uint32_t address, std::uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ std::uint32_t ld_shared(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

__device__ __forceinline__ void st_global(void* to, std::uint32_t value) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

/// Loads 16 bytes, which must be 16-byte aligned.
__device__ __forceinline__ uint4 ld_shared_v4(std::uint32_t address) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

__device__ __forceinline__ void st_global_v4(void* to, std::uint32_t x, std::uint32_t y,
                                             std::uint32_t z, std::uint32_t w) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}

}  // namespace fovea::ptx
