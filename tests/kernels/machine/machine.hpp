// A block of CUDA threads on the host: the threads are fibers that take turns, and what they do
// together (shuffles, matrix instructions, barriers) happens when the last of them has come to it.
//
// Kernels that include their instructions from kernels/ptx/ find the ones in this folder instead
// and run unchanged. Warps run ahead of each other by chance, copies to shared memory arrive as
// late as the waits allow (or at once), and shared memory begins as NaN: what a kernel forgets to
// wait for shows.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

// What the CUDA compiler knows by itself.
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__
#define __align__(bytes)
using std::max;
using std::min;
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct uint4 {
  std::uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
struct EmulatedIndex {
  std::uint32_t x = 0;
};
extern EmulatedIndex threadIdx;
extern EmulatedIndex blockIdx;
extern EmulatedIndex gridDim;

namespace fovea::machine {

inline constexpr std::uint32_t kSharedBytes = 232448;

/// When cp.async's copies are carried out.
enum class Arrival { kLate, kAtOnce };

/// Runs the threads of one block to their ends. Throws std::runtime_error when they wait for each
/// other for ever, or touch what is not theirs.
void run_block(std::uint32_t block, std::uint32_t threads, Arrival arrival,
               const std::function<void()>& body);

/// Of the thread that calls: its place in its warp, and what its warp's threads show each other.
std::uint32_t lane();
struct Shown {
  std::uint32_t word[8];
};
Shown* shown();

/// `bytes` of shared memory.
unsigned char* shared(std::uint32_t address, std::uint32_t bytes);
/// Throws when the address is no multiple of `bytes`.
void require_aligned(std::uintptr_t address, std::uintptr_t bytes);
std::uint32_t address_of(const void* shared);

void meet_warp();
void meet(std::uint32_t barrier, std::uint32_t threads);
std::uint32_t threads_of_block();

void start_copy(std::uint32_t to, const void* from, std::uint32_t bytes);
void end_group();
void wait_for_groups(std::size_t pending);

/// The word that thread `from` of the warp shows.
inline std::uint32_t exchange(std::uint32_t word, std::uint32_t from) {
  shown()[lane()].word[7] = word;
  meet_warp();
  const std::uint32_t other = shown()[from].word[7];
  meet_warp();
  return other;
}

template <typename To, typename From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace fovea::machine

inline void __syncthreads() {
  fovea::machine::meet(0, fovea::machine::threads_of_block());
}
inline void __syncwarp() {
  fovea::machine::meet_warp();
}
inline float __shfl_xor_sync(unsigned, float value, int distance) {
  namespace machine = fovea::machine;
  return machine::bits_as<float>(
      machine::exchange(machine::bits_as<std::uint32_t>(value), machine::lane() ^ distance));
}
inline int __shfl_sync(unsigned, int value, int from) {
  return static_cast<int>(fovea::machine::exchange(value, from));
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  namespace machine = fovea::machine;
  machine::shown()[machine::lane()].word[7] = predicate != 0 ? 1 : 0;
  machine::meet_warp();
  unsigned lanes = 0;
  for (unsigned i = 0; i < 32; ++i) {
    lanes |= machine::shown()[i].word[7] << i;
  }
  machine::meet_warp();
  return lanes;
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline std::uint32_t __float_as_uint(float value) {
  return fovea::machine::bits_as<std::uint32_t>(value);
}
inline float __uint_as_float(std::uint32_t bits) {
  return fovea::machine::bits_as<float>(bits);
}
/// Threads take turns only where they wait.
inline int atomicAdd(int* at, int value) {
  const int before = *at;
  *at += value;
  return before;
}
inline int __any_sync(unsigned, int predicate) {
  namespace machine = fovea::machine;
  machine::shown()[machine::lane()].word[7] = predicate != 0 ? 1 : 0;
  machine::meet_warp();
  int any = 0;
  for (int i = 0; i < 32; ++i) {
    any |= static_cast<int>(machine::shown()[i].word[7]);
  }
  machine::meet_warp();
  return any;
}
