// Notes: messages for users on operators that run in an unexpected way.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "gpu/device/device.hpp"
#include "gpu/launch/gemm.hpp"

namespace fovea::gpu {

/// Collects messages without duplicates.
class Notes {
 public:
  void add(const std::string& text);  // ignores empty messages
  /// Adds a message that cuBLASLt computes a product, and the reason: once per kind of product,
  /// regardless of its number of rows. Adds none on GPUs for which this program has no such kernels
  /// at all.
  void add(const GemmProblem& problem, const std::string& why, const DeviceInfo& device);
  /// Returns and clears the messages added since the last call.
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  std::set<std::string> added_;
  std::string text_;
};

}  // namespace fovea::gpu
