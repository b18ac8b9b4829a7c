// Entry of the attention by mma.sync; built once for each element type and row of kMmaKernels.
#include "kernels/attention/mma.cuh"

namespace attention = fovea::attention;

struct Choices {
  using Element = attention::FOVEA_ELEMENT;
  static constexpr attention::MmaLevers kLevers = attention::kMmaKernels[FOVEA_LEVERS];
};
using Cfg = attention::MmaCfg<Choices>;

extern "C" __global__ void __launch_bounds__(Cfg::kThreads, Cfg::kLevers.blocks)
    FOVEA_ENTRY(const __grid_constant__ attention::PortableParams params) {
  attention::mma<Cfg>(params);
}
