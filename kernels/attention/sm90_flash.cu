// Entry of the streaming attention; built once for each element type and head dimension.
#include "kernels/attention/sm90_flash.cuh"

namespace attention = fovea::attention;

struct Choices {
  using Element = attention::FOVEA_ELEMENT;
  static constexpr attention::FlashLevers kLevers = attention::kFlashKernels[FOVEA_LEVERS];
};
using Cfg = attention::FlashCfg<Choices>;

extern "C" __global__ void __launch_bounds__(Cfg::kThreads, 1)
    FOVEA_ENTRY(const __grid_constant__ attention::Sm90Params params) {
  attention::sm90_flash<Cfg>(params);
}
