// CallerStream: runs operators on a caller's tensors in the caller's stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "gpu/device/device.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/launch.hpp"
#include "gpu/launch/planner.hpp"

namespace fovea::gpu {

class CallerStream {
 public:
  /// `stream` is a CUstream of GPU `device`. The GPU is opened on first use and never closed.
  /// `notify` receives notices for the user.
  CallerStream(int device, void* stream, std::function<void(const std::string&)> notify);

  [[nodiscard]] Device& device() const;
  [[nodiscard]] Planner& planner() const;
  /// Passes a notice to `notify`, but only the first notice about a GPU model in this process.
  void note(const std::string& notice) const;

  void launch(Launch launch) const;
  /// Throws fovea::Error when this program has no kernel for the product.
  void gemm(const GemmProblem& problem, const GemmOperands& operands) const;
  /// Returns a buffer of at least `count` zeros in f32.
  [[nodiscard]] DevicePtr zeros(std::int64_t count) const;

 private:
  class Gpu;
  [[nodiscard]] static Gpu& open(int device);

  Gpu& gpu_;
  ContextGuard context_guard_;
  std::unique_ptr<Stream> stream_;
  std::function<void(const std::string&)> notify_;
};

}  // namespace fovea::gpu
