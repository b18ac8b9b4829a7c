// Loads and stores by explicit state space (PTX ISA 9.7.9.8, 9.7.9.11).
#pragma once

#include <cstdint>

namespace fovea::ptx {

__device__ __forceinline__ void st_shared(std::uint32_t address, std::uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ std::uint64_t ld_shared_b64(std::uint32_t address) {
  std::uint64_t value;
  asm volatile("ld.shared.b64 %0, [%1];" : "=l"(value) : "r"(address) : "memory");
  return value;
}

__device__ __forceinline__ void st_global_b64(void* to, std::uint64_t value) {
  asm volatile("st.global.b64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

}  // namespace fovea::ptx
