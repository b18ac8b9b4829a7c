// Copies of float64 tensors.
#include "ops/copy/op.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

void run(const CopyCall& call, reference::ReferenceExecutor& /*executor*/) {
  for (std::int64_t i = 0; i < call.input.shape.elements(); ++i) {
    reference::store(call.output, i, reference::load(call.input, i));
  }
}

}  // namespace fovea::ops
