// cuDNN, opened at run time: its fused attention, a peer of ours.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "gpu/device/device.hpp"
#include "ops/attention/op.hpp"

namespace fovea::gpu {

/// A problem that cuDNN has agreed to run, by the first engine of its heuristics that does. Used by
/// one thread at a time, one that has used the device before.
class SdpaPlan {
 public:
  virtual ~SdpaPlan() = default;
  /// Puts it into the stream. It can be captured into a graph.
  virtual void run(const ops::AttentionOperands& operands, Stream& stream) = 0;
  /// Device memory that the engine asked for.
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
};

class Cudnn {
 public:
  virtual ~Cudnn() = default;
  /// "9.19.0", as the library says it.
  [[nodiscard]] virtual std::string version() const = 0;
  /// Makes a plan for a problem without varlen, in bf16 or f16. Throws fovea::Error with cuDNN's
  /// reason when no engine of it runs the problem. The plan must not outlive this object.
  [[nodiscard]] virtual std::unique_ptr<SdpaPlan> prepare(const ops::AttentionProblem& problem) = 0;
};

/// The number that the library calls its version: 91900 is "9.19.0", and 8907 "8.9.7".
[[nodiscard]] std::string cudnn_version(std::size_t number);

/// Looks for libcudnn 9: the file that FOVEA_CUDNN names, else Python's package, the loader's own
/// path, and CUDA's usual folders; and for cuBLASLt, which it needs. Throws fovea::Error that says
/// what there is not. `device` must outlive the object.
[[nodiscard]] std::unique_ptr<Cudnn> open_cudnn(Device& device);

}  // namespace fovea::gpu
