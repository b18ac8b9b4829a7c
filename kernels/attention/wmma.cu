// Entry of the attention by products of 16x16x16; built once for each element type and row of
// kWmmaKernels.
#include "kernels/attention/wmma.cuh"

namespace attention = fovea::attention;

struct Choices {
  using Element = attention::FOVEA_ELEMENT;
  static constexpr attention::WmmaLevers kLevers = attention::kWmmaKernels[FOVEA_LEVERS];
};
using Cfg = attention::WmmaCfg<Choices>;

extern "C" __global__ void __launch_bounds__(Cfg::kThreads, Cfg::kLevers.blocks)
    FOVEA_ENTRY(const __grid_constant__ attention::PortableParams params) {
  attention::wmma<Cfg>(params);
}
