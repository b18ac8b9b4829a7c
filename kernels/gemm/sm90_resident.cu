// Entry of the GEMM with a resident operand: kernels/gemm/sm90_resident.cuh.
#include "kernels/gemm/config.cuh"
#include "kernels/gemm/sm90_resident.cuh"

using Gemm = fovea::gemm::ResidentGemm<fovea::gemm::Cfg>;

extern "C" __global__ void __launch_bounds__(Gemm::kThreads, 1)
    FOVEA_ENTRY(const __grid_constant__ fovea::gemm::Params params) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const std::int64_t tiles = static_cast<std::int64_t>(params.row_tiles) * params.column_tiles;
  Gemm gemm{params, params.epilogue, *reinterpret_cast<Gemm::Storage*>(memory),
            tiles * blockIdx.x / gridDim.x, tiles * (blockIdx.x + 1) / gridDim.x};
  gemm.run();
}
