// Entry of the streamed GEMM: kernels/gemm/sm90_streamed.cuh.
#include "kernels/gemm/config.cuh"
#include "kernels/gemm/sm90_streamed.cuh"

using Gemm = fovea::gemm::StreamedGemm<fovea::gemm::Cfg>;

extern "C" __global__ void __launch_bounds__(Gemm::kThreads,
                                             fovea::gemm::Cfg::kConsumers == 1 ? 2 : 1)
    FOVEA_ENTRY(const __grid_constant__ fovea::gemm::Params params) {
  extern __shared__ __align__(1024) unsigned char memory[];
  constexpr int kCluster = fovea::gemm::Cfg::kCluster;
  Gemm gemm{params, *reinterpret_cast<Gemm::Storage*>(memory),
            static_cast<std::int32_t>(blockIdx.x / kCluster),
            static_cast<std::int32_t>(gridDim.x / kCluster),
            static_cast<std::int32_t>(blockIdx.x % kCluster)};
  gemm.run();
}
