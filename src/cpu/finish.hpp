// finish_tile: turns the sums of a product into the output (scales, bias, epilogue, rounding).
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "cpu/tiles/tile_kernel.hpp"
#include "ops/linear/op.hpp"

namespace fovea::cpu {

/// output[r][c] = epilogue((sums[r][c] - column_offset[c]) * column_scale[c] * row_scale[r] +
/// bias[c]), as output_type; i8 outputs are this * output_scale - output_offset, rounded.
struct Finish {
  bool integers = false;                          // the sums are int32, otherwise float
  ops::Epilogue epilogue = ops::Epilogue::kNone;  // kResidual: for f32 outputs only
  DType output_type = DType::kF32;                // f32, bf16 or i8
  float output_scale = 1;
  float output_offset = 0;
  // Null means absent. Column arrays are readable up to a whole panel.
  const std::int32_t* column_offset = nullptr;  // for integer sums
  const float* column_scale = nullptr;          // for integer sums
  const float* bias = nullptr;
  const float* row_scale = nullptr;
  void* output = nullptr;
  std::int64_t output_stride = 0;  // elements
};

/// The addresses in `finish` are those of the tile's first row and column.
///   sums: [rows][stride]
void finish_tile(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                 const Finish& finish);

}  // namespace fovea::cpu
