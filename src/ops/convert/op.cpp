// Conversion and copying of tensors: checks, and the reference in float64.
#include "ops/convert/op.hpp"

#include "core/error.hpp"
#include "ops/checks.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

void check(const ConvertCall& call) {
  const ConstTensorView& input = call.input;
  const DType type = call.output.dtype;
  if (input.data == nullptr) {
    fail("convert: the address of input is null");
  }
  if (type != input.dtype && type != DType::kF16 && type != DType::kF32) {
    fail("convert: unsupported output type {}; expected f16 or f32", to_string(type));
  }
  check_operand("convert", "output", call.output, type, {input.shape[0], input.shape[1]});
}

void run(const ConvertCall& call, reference::ReferenceExecutor& /*executor*/) {
  for (std::int64_t i = 0; i < call.input.shape.elements(); ++i) {
    reference::store(call.output, i, reference::load(call.input, i));
  }
}

}  // namespace fovea::ops
