// Notes: what users are told of operators that do not run as they might expect.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "gpu/device/device.hpp"
#include "gpu/launch/gemm.hpp"

namespace fovea::gpu {

/// Collects them, each once.
class Notes {
 public:
  void add(const std::string& text);  // empty: nothing
  /// A product that cuBLASLt computes, and why, where this program has kernels for others: each
  /// kind once, whatever its number of rows. On GPUs for which it has none at all that is no news.
  void add(const GemmProblem& problem, const std::string& why, const DeviceInfo& device);
  /// What was added since; empty when nothing was.
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  std::set<std::string> told_;
  std::string text_;
};

}  // namespace fovea::gpu
