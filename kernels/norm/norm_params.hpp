// What the kernels of LayerNorm take; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::norm {

inline constexpr int kThreads = 128;  // of a block; each warp takes rows of its own

enum class Output : std::int32_t {
  kBF16,
  kF32,
  kI8,  // each row is divided by max |row| / 127, which goes to row_scale
};

/// Where only the rows' norms are asked for, `output` is epilogue::RowNorm (rows).
struct Params {
  const void* input = nullptr;    // (rows, width), bf16 or f32 by kernel, 16-byte aligned
  const float* weight = nullptr;  // (width)
  const float* bias = nullptr;    // (width)
  void* output = nullptr;         // (rows, width)
  float* row_scale = nullptr;     // (rows)
  std::int64_t rows = 0;
  std::int32_t width = 0;  // a multiple of 8
  Output output_type = Output::kBF16;
  float inverse_width = 0;
  float eps = 0;
  void* block_scales = nullptr;  // of MXFP8: E8M0, where kernels/epilogue/block_scale.cuh says
};

}  // namespace fovea::norm
