// Results in another type, rounded from float64.
#include "ops/convert/op.hpp"
#include "ops/copy/op.hpp"

namespace fovea::ops {

void run(const ConvertCall& call, reference::ReferenceExecutor& executor) {
  run(CopyCall{call.input, call.output}, executor);  // which rounds to the output's type
}

}  // namespace fovea::ops
