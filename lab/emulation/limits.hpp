// Limits for the numbers in a launch file, and for the memory that it may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/error.hpp"

namespace fovea::emulation {

constexpr std::uint64_t kMaxNumber = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40U;  // maximal size of a buffer
constexpr std::size_t kMaxBuffers = 4096;
constexpr std::size_t kMaxPtxBytes = std::size_t{256} << 20U;
constexpr std::size_t kMaxMemory = std::size_t{1} << 30U;  // default of --most-memory

/// Approximate memory budget for a launch file, its kernels and their runs.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t limit) : limit_(limit) {}

  /// Throws fovea::Error if less memory than `bytes` is left.
  void take(std::size_t bytes) {
    if (bytes > left()) {
      fail("{} MiB of memory are needed, but only {} of {} MiB are left; --most-memory allows more",
           mebibytes(bytes), left() >> 20U, limit_ >> 20U);
    }
    taken_ += bytes;
  }
  [[nodiscard]] std::size_t left() const { return limit_ - taken_; }

 private:
  static std::size_t mebibytes(std::size_t bytes) { return (bytes >> 20U) + 1; }

  std::size_t limit_;
  std::size_t taken_ = 0;
};

}  // namespace fovea::emulation
