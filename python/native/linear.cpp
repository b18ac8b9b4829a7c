// Implements linear layers on torch tensors.
#include <optional>
#include <vector>

#include "python/native/operator.hpp"

namespace fovea::torch_operators {
namespace {

constexpr const char* kLinear = "fovea::linear";

Tensor linear(Tensor x, Tensor weight, std::optional<Tensor> bias, std::optional<Tensor> residual,
              bool gelu) {
  reject_gradients(kLinear, {&x, &weight, pointer(bias), pointer(residual)});
  require_one_device(kLinear, {&x, &weight, pointer(bias), pointer(residual)});
  require(x.dim() >= 1 && weight.dim() == 2 && x.size(x.dim() - 1) == weight.size(1), kLinear,
          "x [..., in] and weight [out, in] do not fit together: " + shape_text(x) + ", " +
              shape_text(weight));
  const std::int32_t type = float_type(kLinear, x);
  require(element_type(kLinear, weight) == type, kLinear, "x and weight must be of the same type");
  std::vector<std::int64_t> sizes = tensor_sizes(x);
  sizes.back() = weight.size(0);
  if (bias.has_value()) {
    require(bias->dim() == 1 && bias->size(0) == weight.size(0), kLinear,
            "bias " + shape_text(*bias) + " must have the shape [out]");
    float_type(kLinear, *bias);
  }
  if (residual.has_value()) {
    require(!gelu, kLinear, "gelu and a residual exclude each other");
    require(tensor_sizes(*residual) == sizes, kLinear,
            "the residual " + shape_text(*residual) + " must have the output's shape");
    require(element_type(kLinear, *residual) == type, kLinear,
            "x and residual must be of the same type");
  }
  const Place place(x);
  // The kernel adds its result to the output, which therefore starts as a copy of the residual.
  Tensor output = residual.has_value() ? dense_copy(*residual) : empty(x, sizes);
  if (output.numel() == 0) {
    return output;
  }
  x = dense(x);
  weight = dense(weight);
  if (bias.has_value()) {
    bias = float32(*bias);
  }
  fovea_linear_args args{};
  args.x = x.data_ptr();
  args.weight = weight.data_ptr();
  args.bias = bias.has_value() ? static_cast<const float*>(bias->data_ptr()) : nullptr;
  args.output = output.data_ptr();
  args.in = weight.size(1);
  args.out = weight.size(0);
  args.rows = output.numel() / args.out;
  args.type = type;
  args.epilogue = residual.has_value() ? FOVEA_EPILOGUE_RESIDUAL
                  : gelu               ? FOVEA_EPILOGUE_GELU
                                       : FOVEA_EPILOGUE_NONE;
  call("fovea_linear", args, place);
  return output;
}

}  // namespace

FOVEA_TORCH_OPERATOR(linear,
                     "linear(Tensor x, Tensor weight, Tensor? bias=None, Tensor? residual=None, "
                     "bool gelu=False) -> Tensor")

}  // namespace fovea::torch_operators
