// Results in another type: what fits together.
#include "ops/convert/op.hpp"

#include "core/error.hpp"
#include "ops/checks.hpp"

namespace fovea::ops {

void check(const ConvertCall& call) {
  const ConstTensorView& input = call.input;
  const DType type = call.output.dtype;
  if (input.data == nullptr) {
    fail("convert: no memory for input");
  }
  if (type != DType::kF16 && type != DType::kF32) {
    fail("convert: unsupported output type {}; expected f16 or f32", to_string(type));
  }
  check_operand("convert", "output", call.output, type, {input.shape[0], input.shape[1]});
}

}  // namespace fovea::ops
