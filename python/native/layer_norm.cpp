// Implements LayerNorm on torch tensors.

#include "python/native/operator.hpp"

namespace fovea::torch_operators {
namespace {

constexpr const char* kLayerNorm = "fovea::layer_norm";

Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps) {
  reject_gradients(kLayerNorm, {&x, &weight, &bias});
  require_one_device(kLayerNorm, {&x, &weight, &bias});
  require(x.dim() >= 1 && weight.dim() == 1 && bias.dim() == 1 &&
              x.size(x.dim() - 1) == weight.size(0) && weight.size(0) == bias.size(0),
          kLayerNorm,
          "x [..., width], weight [width] and bias [width] do not fit together: " + shape_text(x) +
              ", " + shape_text(weight) + ", " + shape_text(bias));
  const std::int32_t type = float_type(kLayerNorm, x);
  float_type(kLayerNorm, weight);
  float_type(kLayerNorm, bias);
  Tensor output = empty(x, tensor_sizes(x));
  if (output.numel() == 0) {
    return output;
  }
  const Place place(x);
  x = dense(x);
  weight = float32(weight);
  bias = float32(bias);
  fovea_layer_norm_args args{};
  args.x = x.data_ptr();
  args.weight = static_cast<const float*>(weight.data_ptr());
  args.bias = static_cast<const float*>(bias.data_ptr());
  args.output = output.data_ptr();
  args.width = weight.size(0);
  args.rows = output.numel() / args.width;
  args.eps = eps;
  args.type = type;
  call("fovea_layer_norm", args, place);
  return output;
}

}  // namespace

FOVEA_TORCH_OPERATOR(layer_norm,
                     "layer_norm(Tensor x, Tensor weight, Tensor bias, float eps=1e-6) -> Tensor")

}  // namespace fovea::torch_operators
