// Parameters of the LayerNorm kernels; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::norm {

inline constexpr int kThreads = 128;  // threads per block; each warp processes separate rows

enum class Output : std::int32_t {
  kBF16,
  kF32,
  kI8,  // each row is divided by max |row| / 127, which is stored in row_scale
};

/// For the kernel that computes only the norms of rows, `output` is an array of epilogue::RowNorm
/// (rows).
struct Params {
  /// (rows, width), bf16 or f32 depending on the kernel, 16-byte aligned.
  const void* input = nullptr;
  const float* weight = nullptr;  // (width)
  const float* bias = nullptr;    // (width)
  void* output = nullptr;         // (rows, width)
  float* row_scale = nullptr;     // (rows)
  std::int64_t rows = 0;
  std::int32_t width = 0;  // a multiple of 8
  Output output_type = Output::kBF16;
  float inverse_width = 0;
  float eps = 0;
  /// For MXFP8: E8M0, in the order of kernels/epilogue/block_scale.cuh.
  void* block_scales = nullptr;
};

}  // namespace fovea::norm
