// Implements the patch embedding on torch tensors.
#include <optional>
#include <vector>

#include "python/native/operator.hpp"

namespace fovea::torch_operators {
namespace {

constexpr const char* kPatchEmbed = "fovea::patch_embed";

Tensor patch_embed(Tensor patches, Tensor weight, Tensor position, std::optional<Tensor> scale) {
  reject_gradients(kPatchEmbed, {&patches, &weight, &position, pointer(scale)});
  require_one_device(kPatchEmbed, {&patches, &weight, &position, pointer(scale)});
  require(patches.dim() == 3 && weight.dim() == 2 && position.dim() == 2 &&
              patches.size(2) == weight.size(1) && patches.size(1) == position.size(0) &&
              weight.size(0) == position.size(1),
          kPatchEmbed,
          "patches [images, tokens, in], weight [out, in] and position [tokens, out] do not fit "
          "together: " +
              shape_text(patches) + ", " + shape_text(weight) + ", " + shape_text(position));
  const std::int32_t type = float_type(kPatchEmbed, position);
  const std::int32_t patch_type = element_type(kPatchEmbed, patches);
  const std::int32_t weight_type = element_type(kPatchEmbed, weight);
  if (scale.has_value()) {
    require(patch_type == FOVEA_U8 && weight_type == FOVEA_I8 && type == FOVEA_BF16, kPatchEmbed,
            "a scale requires uint8 patches, int8 weights and a bfloat16 position");
    require(scale->dim() == 1 && scale->size(0) == weight.size(0), kPatchEmbed,
            "scale " + shape_text(*scale) + " must have the shape [out]");
  } else {
    require(patch_type == type && weight_type == type, kPatchEmbed,
            "patches, weight and position must be of the same type, unless patches are uint8 and "
            "weights "
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
  call("fovea_patch_embed", args, place);
  return output;
}

}  // namespace

FOVEA_TORCH_OPERATOR(
    patch_embed,
    "patch_embed(Tensor patches, Tensor weight, Tensor position, Tensor? scale=None) -> Tensor")

}  // namespace fovea::torch_operators
