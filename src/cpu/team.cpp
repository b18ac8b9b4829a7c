// TeamBarrier: a counter and a generation number; the last thread to arrive starts the next
// generation.
#include "cpu/team.hpp"

#include <immintrin.h>

#include "core/error.hpp"

namespace fovea::cpu {
namespace {

// Spins for about 20 microseconds, longer than the usual difference between threads at the end of
// an operator.
constexpr int kSpins = 1000;

}  // namespace

void TeamBarrier::arrive_and_wait() {
  if (size_ == 1) {
    return;
  }
  // Acquire, so that a thread that arrives after an abort sees it and does not wait for the next
  // generation.
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  throw_if_aborted();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  } else {
    for (int spin = 0; generation_.load(std::memory_order_acquire) == generation; ++spin) {
      if (spin < kSpins) {
        _mm_pause();
      } else {
        generation_.wait(generation, std::memory_order_acquire);
      }
    }
  }
  throw_if_aborted();
}

void TeamBarrier::throw_if_aborted() const {
  if (aborted_.load(std::memory_order_acquire)) {
    fail("the computation was aborted because another thread failed");
  }
}

void TeamBarrier::abort() {
  aborted_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

}  // namespace fovea::cpu
