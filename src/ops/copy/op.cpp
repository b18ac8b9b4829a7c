// Copies: what fits together.
#include "ops/copy/op.hpp"

#include "core/error.hpp"
#include "ops/checks.hpp"

namespace fovea::ops {

void check(const CopyCall& call) {
  const ConstTensorView& input = call.input;
  if (input.data == nullptr) {
    fail("copy: no memory for input");
  }
  check_operand("copy", "output", call.output, input.dtype, {input.shape[0], input.shape[1]});
}

}  // namespace fovea::ops
