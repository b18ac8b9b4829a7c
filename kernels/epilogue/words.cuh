// Loads and stores of adjacent 32-bit words or floats, 16 bytes at a time where possible.
#pragma once

#include <cstdint>

namespace fovea::epilogue {

/// The type to load or store kBytes (4, 8 or 16) at once.
template <int kBytes>
struct Words;
template <>
struct Words<4> {
  using Type = std::uint32_t;
};
template <>
struct Words<8> {
  using Type = uint2;
};
template <>
struct Words<16> {
  using Type = uint4;
};

template <int kCount>
__device__ __forceinline__ void load_words(std::uint32_t (&to)[kCount], const void* from) {
  using Type = typename Words<kCount == 8 ? 16 : kCount * 4>::Type;
#pragma unroll
  for (int i = 0; i < kCount * 4 / static_cast<int>(sizeof(Type)); ++i) {
    const Type value = static_cast<const Type*>(from)[i];
    __builtin_memcpy(reinterpret_cast<char*>(&to[0]) + i * sizeof(Type), &value, sizeof(Type));
  }
}

template <int kCount>
__device__ __forceinline__ void store_words(void* to, const std::uint32_t (&from)[kCount]) {
  using Type = typename Words<kCount * 4>::Type;
  Type value;
  __builtin_memcpy(&value, from, sizeof(Type));
  *static_cast<Type*>(to) = value;
}

template <int kCount>
__device__ __forceinline__ void load_floats(float (&to)[kCount], const float* from) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 value = *reinterpret_cast<const float4*>(from + i);
    to[i] = value.x;
    to[i + 1] = value.y;
    to[i + 2] = value.z;
    to[i + 3] = value.w;
  }
}

}  // namespace fovea::epilogue
