// Notes: messages for users on operators that run in an unexpected way.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "gpu/device/device.hpp"
#include "gpu/launch/gemm.hpp"

namespace fovea::gpu {

/// Collects messages, each once.
class Notes {
 public:
  void add(const std::string& text);  // empty: nothing
  /// Adds a message that cuBLASLt computes a product, and why: once per kind of product, regardless
  /// of its rows. Not on GPUs for which this program has no kernels for products at all.
  void add(const GemmProblem& problem, const std::string& why, const DeviceInfo& device);
  /// Returns and clears the messages added since the last call.
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  std::set<std::string> told_;
  std::string text_;
};

}  // namespace fovea::gpu
