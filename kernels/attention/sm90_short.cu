// Entry of the short-sequence attention; built once for each element type, head dimension and
// length.
#include "kernels/attention/sm90_short.cuh"

namespace attention = fovea::attention;

struct Choices {
  using Element = attention::FOVEA_ELEMENT;
  static constexpr attention::ShortLevers kLevers = attention::kShortKernels[FOVEA_LEVERS];
};
using Cfg = attention::ShortCfg<Choices>;

extern "C" __global__ void __launch_bounds__(Cfg::kThreads, 1)
    FOVEA_ENTRY(const __grid_constant__ attention::Sm90Params params) {
  attention::sm90_short<Cfg>(params);
}
