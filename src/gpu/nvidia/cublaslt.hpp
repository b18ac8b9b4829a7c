// cuBLASLt, opened at run time: the matrix product of GPUs without a tuned kernel, and a peer.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.hpp"
#include "gpu/device/device.hpp"
#include "gpu/nvidia/library.hpp"

namespace fovea::gpu {

enum class MatmulEpilogue : std::uint8_t { kNone, kBias, kBiasGelu };
enum class MatmulScale : std::uint8_t {
  kNone,    // 16-bit operands
  kTensor,  // one factor each for a and b
  kOuter,   // a factor for each row of a and each row of b
  kBlocks,  // a power of two (E8M0) for each 32 values along k of a and b; Blackwell only
};

/// output (m, n) = epilogue(a (m, k) b (n, k)^T [+ output]), row-major, computed in f32, or in s32
/// for kI8.
struct MatmulProblem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType type = DType::kBF16;    // type of a and b: kBF16, kF16, kE4M3 or kI8
  DType output = DType::kBF16;  // ignored for kI8, whose outputs are the s32 sums
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;  // GELU is the tanh approximation
  DType bias = DType::kBF16;                        // cuBLASLt takes f32 only with f32 outputs
  MatmulScale scale = MatmulScale::kNone;
  bool accumulate = false;  // adds to the values in the output

  friend auto operator<=>(const MatmulProblem&, const MatmulProblem&) = default;
};

struct MatmulOperands {
  DevicePtr a = 0;
  DevicePtr b = 0;
  DevicePtr output = 0;
  DevicePtr bias = 0;          // (n)
  DevicePtr a_scale = 0;       // f32: 1 or (m); kBlocks: E8M0 (ops/block_scales.hpp)
  DevicePtr b_scale = 0;       // f32: 1 or (n); kBlocks: likewise
  DevicePtr output_scale = 0;  // f32: the factor of e4m3 outputs
};

[[nodiscard]] std::string to_string(const MatmulProblem& problem);

/// A problem that cuBLASLt supports, and the algorithms that it proposes, best guess first. Only
/// one thread may use a plan at a time; it must have used the device before.
class MatmulPlan {
 public:
  virtual ~MatmulPlan() = default;
  /// Puts the product into the stream. It can be captured into a graph.
  virtual void run(const MatmulOperands& operands, Stream& stream) = 0;
  /// Times every algorithm on these operands and keeps the fastest.
  virtual void tune(const MatmulOperands& operands, Stream& stream) = 0;
};

class CublasLt {
 public:
  virtual ~CublasLt() = default;
  /// Returns the library's version, such as "13.1.0".
  [[nodiscard]] virtual std::string version() const = 0;
  /// Throws fovea::Error when cuBLASLt has no algorithm for the problem. The plan must not outlive
  /// this object.
  [[nodiscard]] virtual std::unique_ptr<MatmulPlan> prepare(const MatmulProblem& problem) = 0;
};

/// Searches for libcublasLt in the file that FOVEA_CUBLASLT names, the loader's path, CUDA's usual
/// folders, and the folders of Python's CUDA packages. Throws fovea::Error if it is in none of
/// them. `device` must outlive the object.
[[nodiscard]] std::unique_ptr<CublasLt> open_cublaslt(Device& device);
/// Opens only the library, so that other libraries that open it by name find it.
[[nodiscard]] Library open_cublaslt_library();

}  // namespace fovea::gpu
