// Entry of the alternating GEMM: kernels/gemm/sm90_alternating.cuh.
#include "kernels/gemm/config.cuh"
#include "kernels/gemm/sm90_alternating.cuh"

using Gemm = fovea::gemm::AlternatingGemm<fovea::gemm::Cfg>;

extern "C" __global__ void __launch_bounds__(Gemm::kThreads, 1)
    FOVEA_ENTRY(const __grid_constant__ fovea::gemm::Params params) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Gemm gemm{params, params.epilogue, *reinterpret_cast<Gemm::Storage*>(memory)};
  gemm.run();
}
