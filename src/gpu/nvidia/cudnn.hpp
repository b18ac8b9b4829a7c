// cuDNN, opened at run time: its fused attention, a peer of ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.hpp"
#include "gpu/device/device.hpp"

namespace fovea::gpu {

/// Element (b, h, n, d) of an operand lies at b * batch + h * head + n * row + d; multiples of 8.
struct SdpaStrides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t head = 0;
};

/// Scaled dot-product attention: o = softmax(scale q k^T) v for each head of each image; q and o
/// are (batch, heads, queries, head_dim), k and v (batch, kv_heads, keys, head_dim).
struct SdpaProblem {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads; head h reads h / (heads / kv_heads)
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t head_dim = 0;
  double scale = 1.0;
  bool causal = false;        // query i sees keys 0 .. i + keys - queries
  DType type = DType::kBF16;  // of q, k, v and o: kBF16 or kF16
  SdpaStrides q, k, v, o;
};

/// Each 16-byte aligned.
struct SdpaOperands {
  DevicePtr q = 0;
  DevicePtr k = 0;
  DevicePtr v = 0;
  DevicePtr o = 0;
};

[[nodiscard]] std::string to_string(const SdpaProblem& problem);

/// A problem that cuDNN has agreed to run, by the first engine of its heuristics that does. Used by
/// one thread at a time, one that has used the device before.
class SdpaPlan {
 public:
  virtual ~SdpaPlan() = default;
  /// Puts it into the stream. It can be captured into a graph.
  virtual void run(const SdpaOperands& operands, Stream& stream) = 0;
  /// Device memory that the engine asked for.
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
};

class Cudnn {
 public:
  virtual ~Cudnn() = default;
  /// "9.19.0", as the library says it.
  [[nodiscard]] virtual std::string version() const = 0;
  /// Throws fovea::Error with cuDNN's reason when no engine of it runs the problem. The plan must
  /// not outlive this object.
  [[nodiscard]] virtual std::unique_ptr<SdpaPlan> prepare(const SdpaProblem& problem) = 0;
};

/// The number that the library calls its version: 91900 is "9.19.0", and 8907 "8.9.7".
[[nodiscard]] std::string cudnn_version(std::size_t number);

/// Looks for libcudnn 9: the file that FOVEA_CUDNN names, else Python's package, the loader's own
/// path, and CUDA's usual folders; and for cuBLASLt, which it needs. Throws fovea::Error that says
/// what there is not. `device` must outlive the object.
[[nodiscard]] std::unique_ptr<Cudnn> open_cudnn(Device& device);

}  // namespace fovea::gpu
