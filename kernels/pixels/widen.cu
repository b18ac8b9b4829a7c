// Conversion of pixels to bf16 as value - 128, so that the operand of the matrix product is exact
// and centred.
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/pixels/pixels_params.hpp"
#include "kernels/ptx/math.cuh"

namespace fovea::pixels {
namespace {

constexpr float kCentre = 128.0F;

__device__ __forceinline__ float centred(std::uint32_t word, int byte) {
  return static_cast<float>(word >> (8 * byte) & 0xffU) - kCentre;
}

__device__ __forceinline__ std::uint32_t widen_pair(std::uint32_t word, int byte) {
  return ptx::cvt_bf16x2(centred(word, byte), centred(word, byte + 1));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    FOVEA_ENTRY(const __grid_constant__ WidenParams params) {
  const int units = params.stride / kUnit;
  const std::int64_t count = params.rows * units;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += threads) {
    const std::int64_t row = i / units;
    const int column = static_cast<int>(i - row * units) * kUnit;
    const std::uint8_t* const from = params.pixels + row * params.width + column;
    uint2 bytes{0x80808080U, 0x80808080U};  // zeros when centred
    if (params.width % kUnit == 0) {
      if (column < params.width) {
        bytes = *reinterpret_cast<const uint2*>(from);
      }
    } else {
      for (int b = 0; b < kUnit && column + b < params.width; ++b) {
        std::uint32_t& word = b < 4 ? bytes.x : bytes.y;
        const int shift = b % 4 * 8;
        word = (word & ~(0xffU << shift)) | static_cast<std::uint32_t>(from[b]) << shift;
      }
    }
    *reinterpret_cast<uint4*>(params.output + i * kUnit) = {
        widen_pair(bytes.x, 0), widen_pair(bytes.x, 2), widen_pair(bytes.y, 0),
        widen_pair(bytes.y, 2)};
  }
}

}  // namespace fovea::pixels
