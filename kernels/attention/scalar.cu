// Entry of the attention by multiply-adds; built once for each element type and row of
// kScalarKernels.
#include "kernels/attention/scalar.cuh"

namespace attention = fovea::attention;

struct Choices {
  using Element = attention::FOVEA_ELEMENT;
  static constexpr attention::ScalarLevers kLevers = attention::kScalarKernels[FOVEA_LEVERS];
};
using Cfg = attention::ScalarCfg<Choices>;

extern "C" __global__ void __maxnreg__(Cfg::kRegisters)
    FOVEA_ENTRY(const __grid_constant__ attention::PortableParams params) {
  attention::scalar<Cfg>(params);
}
