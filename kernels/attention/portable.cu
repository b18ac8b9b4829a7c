// Entry of the portable attention; built once for each element type and padded head dimension.
#include "kernels/attention/portable.cuh"

namespace attention = fovea::attention;

using Cfg = attention::PortableCfg<attention::FOVEA_ELEMENT, FOVEA_HEAD_DIM>;

extern "C" __global__ void __launch_bounds__(Cfg::kThreads)
    FOVEA_ENTRY(const __grid_constant__ attention::PortableParams params) {
  attention::portable<Cfg>(params);
}
