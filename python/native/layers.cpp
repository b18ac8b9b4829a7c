// The layers around attention on torch's tensors.
#include <string>

#include "python/native/engine.hpp"
#include "python/native/operators.hpp"

namespace fovea::torch_operators {
namespace {

constexpr const char* kPatchEmbed = "fovea::patch_embed";
constexpr const char* kLinear = "fovea::linear";
constexpr const char* kLayerNorm = "fovea::layer_norm";

void require(bool holds, const char* name, const std::string& what) {
  if (!holds) {
    fail(std::string(name) + ": " + what);
  }
}

const Tensor* pointer(const std::optional<Tensor>& tensor) {
  return tensor.has_value() ? &*tensor : nullptr;
}

/// Float types that the operators compute in.
std::int32_t float_type(const char* name, const Tensor& tensor) {
  const std::int32_t type = type_of(name, tensor);
  require(type != FOVEA_U8 && type != FOVEA_I8, name, "takes float16, bfloat16 and float32");
  return type;
}

}  // namespace

Tensor patch_embed(Tensor patches, Tensor weight, Tensor position, std::optional<Tensor> scale) {
  refuse_gradients(kPatchEmbed, {&patches, &weight, &position, pointer(scale)});
  require_one_device(kPatchEmbed, {&patches, &weight, &position, pointer(scale)});
  require(patches.dim() == 3 && weight.dim() == 2 && position.dim() == 2 &&
              patches.size(2) == weight.size(1) && patches.size(1) == position.size(0) &&
              weight.size(0) == position.size(1),
          kPatchEmbed,
          "patches [images, tokens, in], weight [out, in] and position [tokens, out] do not fit "
          "together: " +
              shape_of(patches) + ", " + shape_of(weight) + ", " + shape_of(position));
  const std::int32_t type = float_type(kPatchEmbed, position);
  const std::int32_t patch_type = type_of(kPatchEmbed, patches);
  const std::int32_t weight_type = type_of(kPatchEmbed, weight);
  if (scale.has_value()) {
    require(patch_type == FOVEA_U8 && weight_type == FOVEA_I8 && type == FOVEA_BF16, kPatchEmbed,
            "a scale goes with uint8 patches, int8 weights and a bfloat16 position");
    require(scale->dim() == 1 && scale->size(0) == weight.size(0), kPatchEmbed,
            "scale " + shape_of(*scale) + " is not [out]");
  } else {
    require(patch_type == type && weight_type == type, kPatchEmbed,
            "patches, weight and position are of one type, unless patches are uint8 and weights "
            "int8 with a scale");
  }
  const std::vector<std::int64_t> sizes{patches.size(0), patches.size(1), weight.size(0)};
  Tensor output = empty(position, sizes);
  if (output.numel() == 0) {
    return output;
  }
  const Place place(patches);
  patches = dense(patches);
  weight = dense(weight);
  position = dense(position);
  if (scale.has_value()) {
    scale = float32(*scale);
  }
  fovea_patch_embed_args args{};
  args.patches = patches.data_ptr();
  args.weight = weight.data_ptr();
  args.position = position.data_ptr();
  args.scale = scale.has_value() ? static_cast<const float*>(scale->data_ptr()) : nullptr;
  args.output = output.data_ptr();
  args.images = sizes[0];
  args.tokens = sizes[1];
  args.in = weight.size(1);
  args.out = sizes[2];
  args.patch_type = patch_type;
  args.weight_type = weight_type;
  args.type = type;
  check(engine().patch_embed(&args, place.get()));
  return output;
}

Tensor linear(Tensor x, Tensor weight, std::optional<Tensor> bias, std::optional<Tensor> residual,
              bool gelu) {
  refuse_gradients(kLinear, {&x, &weight, pointer(bias), pointer(residual)});
  require_one_device(kLinear, {&x, &weight, pointer(bias), pointer(residual)});
  require(x.dim() >= 1 && weight.dim() == 2 && x.size(x.dim() - 1) == weight.size(1), kLinear,
          "x [..., in] and weight [out, in] do not fit together: " + shape_of(x) + ", " +
              shape_of(weight));
  const std::int32_t type = float_type(kLinear, x);
  require(type_of(kLinear, weight) == type, kLinear, "x and weight are of one type");
  std::vector<std::int64_t> sizes = sizes_of(x);
  sizes.back() = weight.size(0);
  if (bias.has_value()) {
    require(bias->dim() == 1 && bias->size(0) == weight.size(0), kLinear,
            "bias " + shape_of(*bias) + " is not [out]");
    float_type(kLinear, *bias);
  }
  if (residual.has_value()) {
    require(!gelu, kLinear, "either gelu or a residual, not both");
    require(sizes_of(*residual) == sizes, kLinear,
            "the residual " + shape_of(*residual) + " is not of the output's shape");
    require(type_of(kLinear, *residual) == type, kLinear, "x and residual are of one type");
  }
  const Place place(x);
  // The kernel adds to what the output holds.
  Tensor output = residual.has_value() ? copied(*residual) : empty(x, sizes);
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
  check(engine().linear(&args, place.get()));
  return output;
}

Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps) {
  refuse_gradients(kLayerNorm, {&x, &weight, &bias});
  require_one_device(kLayerNorm, {&x, &weight, &bias});
  require(x.dim() >= 1 && weight.dim() == 1 && bias.dim() == 1 &&
              x.size(x.dim() - 1) == weight.size(0) && weight.size(0) == bias.size(0),
          kLayerNorm,
          "x [..., width], weight [width] and bias [width] do not fit together: " + shape_of(x) +
              ", " + shape_of(weight) + ", " + shape_of(bias));
  const std::int32_t type = float_type(kLayerNorm, x);
  float_type(kLayerNorm, weight);
  float_type(kLayerNorm, bias);
  Tensor output = empty(x, sizes_of(x));
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
  check(engine().layer_norm(&args, place.get()));
  return output;
}

}  // namespace fovea::torch_operators
