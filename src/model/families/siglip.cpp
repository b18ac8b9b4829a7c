// SigLIP and SigLIP 2 of fixed resolution, and SigLIP 2 NaFlex: config files, tensor names and
// published architectures.
#include <array>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/family.hpp"

namespace fovea::model {

extern const Family siglip_naflex;

namespace {

using nlohmann::ordered_json;

/// huggingface/transformers@1c51a62 models/siglip/modeling_siglip.py, and of a NaFlex model
/// models/siglip2/modeling_siglip2.py, where the patch embedding is a linear layer.
constexpr std::array kVisionParts{
    PartName{Part::kPatchEmbed, "vision_model.embeddings.patch_embedding"},
    PartName{Part::kPosition, "vision_model.embeddings.position_embedding", NameSuffix::kWeight},
    PartName{Part::kNorm1, "vision_model.encoder.layers.{}.layer_norm1"},
    PartName{Part::kQuery, "vision_model.encoder.layers.{}.self_attn.q_proj"},
    PartName{Part::kKey, "vision_model.encoder.layers.{}.self_attn.k_proj"},
    PartName{Part::kValue, "vision_model.encoder.layers.{}.self_attn.v_proj"},
    PartName{Part::kOut, "vision_model.encoder.layers.{}.self_attn.out_proj"},
    PartName{Part::kNorm2, "vision_model.encoder.layers.{}.layer_norm2"},
    PartName{Part::kFc1, "vision_model.encoder.layers.{}.mlp.fc1"},
    PartName{Part::kFc2, "vision_model.encoder.layers.{}.mlp.fc2"},
    PartName{Part::kFinalNorm, "vision_model.post_layernorm"},
    PartName{Part::kProbe, "vision_model.head.probe", NameSuffix::kNone, 2},
    PartName{Part::kPoolAttention, "vision_model.head.attention.in_proj",
             NameSuffix::kInProjection},
    PartName{Part::kPoolOut, "vision_model.head.attention.out_proj"},
    PartName{Part::kPoolNorm, "vision_model.head.layernorm"},
    PartName{Part::kPoolFc1, "vision_model.head.mlp.fc1"},
    PartName{Part::kPoolFc2, "vision_model.head.mlp.fc2"}};
constexpr std::array kTextParts{
    PartName{Part::kTokenTable, "text_model.embeddings.token_embedding", NameSuffix::kWeight},
    PartName{Part::kPosition, "text_model.embeddings.position_embedding", NameSuffix::kWeight},
    PartName{Part::kNorm1, "text_model.encoder.layers.{}.layer_norm1"},
    PartName{Part::kQuery, "text_model.encoder.layers.{}.self_attn.q_proj"},
    PartName{Part::kKey, "text_model.encoder.layers.{}.self_attn.k_proj"},
    PartName{Part::kValue, "text_model.encoder.layers.{}.self_attn.v_proj"},
    PartName{Part::kOut, "text_model.encoder.layers.{}.self_attn.out_proj"},
    PartName{Part::kNorm2, "text_model.encoder.layers.{}.layer_norm2"},
    PartName{Part::kFc1, "text_model.encoder.layers.{}.mlp.fc1"},
    PartName{Part::kFc2, "text_model.encoder.layers.{}.mlp.fc2"},
    PartName{Part::kFinalNorm, "text_model.final_layer_norm"},
    PartName{Part::kProjection, "text_model.head"},
    PartName{Part::kLogitScale, "logit_scale", NameSuffix::kNone},
    PartName{Part::kLogitBias, "logit_bias", NameSuffix::kNone}};

constexpr std::string_view kActivation = "gelu_pytorch_tanh";

std::optional<VisionConfig> parse_vision(const Fields& root, bool naflex) {
  const std::string type = naflex ? "siglip2" : "siglip";
  const std::optional<Fields> fields = vision_fields(root, type, type + "_vision_model");
  if (!fields) {
    return std::nullopt;
  }
  VisionConfig config{.naflex = naflex};
  read_layers(*fields, kActivation, config);
  if (fields->integer("num_channels", 3, kMaxHidden) != 3) {
    fields->refuse("num_channels", "only RGB images are supported");
  }
  config.pooling = fields->boolean("vision_use_head", true) ? Pooling::kAttention : Pooling::kNone;
  if (!naflex) {
    read_grid(*fields, config);
    return config;
  }
  config.image_size = 0;
  config.patch = fields->square("patch_size", config.patch, kMaxPatch);
  config.num_patches = fields->integer("num_patches", config.num_patches, kMaxPatches);
  if (config.patches() != config.num_patches) {
    fields->refuse_value(
        "num_patches {} is not a square number, but the position table must be square",
        config.num_patches);
  }
  return config;
}

std::optional<TextConfig> parse_text(const Fields& root, bool naflex) {
  if (root.string("model_type", "") != (naflex ? "siglip2" : "siglip")) {
    return std::nullopt;
  }
  TextConfig config;
  const std::optional<Fields> fields = root.object("text_config");
  if (!fields) {
    return config;
  }
  const std::string type = fields->string("model_type", "siglip_text_model");
  if (type != "siglip_text_model" && type != "siglip2_text_model") {
    fields->refuse("model_type", "only SigLIP's and SigLIP 2's text towers are supported");
  }
  read_layers(*fields, kActivation, config);
  config.vocabulary = fields->integer("vocab_size", config.vocabulary, kMaxVocabulary);
  config.tokens = fields->integer("max_position_embeddings", config.tokens, kMaxTokens);
  config.projection = fields->integer("projection_size", config.hidden, kMaxHidden);
  return config;
}

Preprocessing parse_preprocessing(const Fields& fields, bool naflex) {
  const std::string expected = naflex ? "Siglip2ImageProcessor" : "SiglipImageProcessor";
  if (!fields.string("image_processor_type", expected).starts_with(expected)) {
    fields.refuse("image_processor_type",
                  fmt::format("expected {} for {}", expected,
                              naflex ? "a NaFlex model" : "a model of fixed resolution"));
  }
  for (const char* step : {"do_center_crop", "do_pad"}) {
    if (fields.boolean(step, false)) {
      fields.refuse(step, "SigLIP's processors neither crop nor pad");
    }
  }
  // Defaults of the processor classes in transformers 5.23:
  // models/siglip/image_processing_siglip.py and models/siglip2/image_processing_siglip2.py.
  Preprocessing result = read_pixels(fields, naflex ? Resample::kBilinear : Resample::kBicubic);
  if (!naflex) {
    read_size(fields, result);
    return result;
  }
  result.height = 0;
  result.width = 0;
  result.patch = static_cast<int>(fields.square("patch_size", 16, kMaxPatch));
  result.max_patches = static_cast<int>(fields.integer("max_num_patches", 256, kMaxPatches));
  return result;
}

/// Adds a field unless it has transformers' default value; files on the hub omit defaults as well.
void add_field(ordered_json& fields, const char* name, std::int64_t value,
               std::int64_t default_value) {
  if (value != default_value) {
    fields[name] = value;
  }
}

/// Adds the fields common to both towers.
template <typename Config>
ordered_json layer_fields(const Config& config) {
  const Config defaults;
  ordered_json fields;
  add_field(fields, "hidden_size", config.hidden, defaults.hidden);
  add_field(fields, "intermediate_size", config.mlp, defaults.mlp);
  add_field(fields, "num_attention_heads", config.heads, defaults.heads);
  add_field(fields, "num_hidden_layers", config.layers, defaults.layers);
  return fields;
}

ordered_json config_json(const VisionConfig& vision, const TextConfig& text) {
  const std::string type = vision.naflex ? "siglip2" : "siglip";
  ordered_json vision_fields = layer_fields(vision);
  if (vision.naflex) {
    add_field(vision_fields, "num_patches", vision.num_patches, VisionConfig().num_patches);
  } else {
    add_field(vision_fields, "image_size", vision.image_size, VisionConfig().image_size);
  }
  vision_fields["model_type"] = type + "_vision_model";
  add_field(vision_fields, "patch_size", vision.patch, VisionConfig().patch);
  ordered_json text_fields = layer_fields(text);
  add_field(text_fields, "max_position_embeddings", text.tokens, TextConfig().tokens);
  text_fields["model_type"] = type + "_text_model";
  add_field(text_fields, "projection_size", text.projection, text.hidden);
  add_field(text_fields, "vocab_size", text.vocabulary, TextConfig().vocabulary);
  return {{"initializer_factor", 1.0},
          {"model_type", type},
          {"text_config", text_fields},
          {"vision_config", vision_fields}};
}

ordered_json preprocessor_json(const VisionConfig& config) {
  const std::string model = config.naflex ? "Siglip2" : "Siglip";
  ordered_json fields = {{"do_convert_rgb", nullptr},
                         {"do_normalize", true},
                         {"do_rescale", true},
                         {"do_resize", true},
                         {"image_mean", {0.5, 0.5, 0.5}},
                         {"image_processor_type", model + "ImageProcessor"},
                         {"image_std", {0.5, 0.5, 0.5}},
                         {"processor_class", model + "Processor"},
                         {"resample", 2},
                         {"rescale_factor", 1.0 / 255.0}};
  if (config.naflex) {
    fields["max_num_patches"] = config.max_patches;
    fields["patch_size"] = config.patch;
  } else {
    fields["size"] = {{"height", config.image_size}, {"width", config.image_size}};
  }
  return fields;
}

// Architectures from huggingface/transformers@283d692 models/siglip/convert_siglip_to_hf.py.
constexpr VisionConfig kBase{.hidden = 768, .mlp = 3072, .layers = 12, .heads = 12};
constexpr VisionConfig kLarge{.hidden = 1024, .mlp = 4096, .layers = 24, .heads = 16};
constexpr VisionConfig kSo400m{.hidden = 1152, .mlp = 4304, .layers = 27, .heads = 16};
constexpr VisionConfig kGiant{.hidden = 1536, .mlp = 6144, .layers = 40, .heads = 16};
// A small model with several heads of a usual head dimension; the sizes of MLP and grid differ from
// the other dimensions.
constexpr VisionConfig kTiny{.hidden = 128, .mlp = 384, .layers = 3, .heads = 4};

// The published text towers have 64 tokens and Gemma's vocabulary.
constexpr std::int64_t kGemmaVocabulary = 256000;
constexpr TextConfig text(const VisionConfig& sizes, std::int64_t projection) {
  return {.hidden = sizes.hidden,
          .mlp = sizes.mlp,
          .layers = sizes.layers,
          .heads = sizes.heads,
          .vocabulary = kGemmaVocabulary,
          .tokens = 64,
          .projection = projection};
}
constexpr TextConfig kTinyText{.hidden = 96,
                               .mlp = 256,
                               .layers = 2,
                               .heads = 3,
                               .vocabulary = kGemmaVocabulary,
                               .tokens = 64,
                               .projection = 128};

constexpr Preset with_text(std::string_view name, const VisionConfig& vision) {
  // The text tower of the giant model is that of so400m.
  const TextConfig text_tower = vision.hidden == kTiny.hidden    ? kTinyText
                                : vision.hidden == kGiant.hidden ? text(kSo400m, kGiant.hidden)
                                                                 : text(vision, vision.hidden);
  return {.name = name, .vision = vision, .text = text_tower};
}

constexpr Preset preset(std::string_view name, VisionConfig vision, std::int64_t patch,
                        std::int64_t image_size) {
  vision.patch = patch;
  vision.image_size = image_size;
  return with_text(name, vision);
}

constexpr Preset naflex_preset(std::string_view name, VisionConfig vision, std::int64_t patch,
                               std::int64_t num_patches) {
  vision.patch = patch;
  vision.image_size = 0;
  vision.naflex = true;
  vision.family = &siglip_naflex;
  vision.num_patches = vision.max_patches = num_patches;
  return with_text(name, vision);
}

constexpr std::array kPresets{
    preset("tiny", kTiny, 16, 64),
    naflex_preset("tiny-naflex", kTiny, 16, 64),
    preset("base-patch32-256", kBase, 32, 256),
    preset("base-patch16-224", kBase, 16, 224),
    preset("base-patch16-256", kBase, 16, 256),
    preset("base-patch16-384", kBase, 16, 384),
    preset("base-patch16-512", kBase, 16, 512),
    naflex_preset("base-patch16-naflex", kBase, 16, 256),
    preset("large-patch16-256", kLarge, 16, 256),
    preset("large-patch16-384", kLarge, 16, 384),
    preset("large-patch16-512", kLarge, 16, 512),
    preset("so400m-patch14-224", kSo400m, 14, 224),
    preset("so400m-patch14-384", kSo400m, 14, 384),
    preset("so400m-patch16-256", kSo400m, 16, 256),
    preset("so400m-patch16-384", kSo400m, 16, 384),
    preset("so400m-patch16-512", kSo400m, 16, 512),
    naflex_preset("so400m-patch16-naflex", kSo400m, 16, 256),
    preset("giant-opt-patch16-256", kGiant, 16, 256),
    preset("giant-opt-patch16-384", kGiant, 16, 384),
};

}  // namespace

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): constinit leaves nothing to throw
constinit const Family siglip{
    .description = "SigLIP and SigLIP 2 (model_type \"siglip\")",
    .vision_names = {"vision_model.", kVisionParts},
    .text_names = {"text_model.", kTextParts},
    .vision = [](const Fields& config) { return parse_vision(config, false); },
    .text = [](const Fields& config) { return parse_text(config, false); },
    .preprocessing = [](const Fields& fields) { return parse_preprocessing(fields, false); },
    .presets = kPresets,
    .config_json = config_json,
    .preprocessor_json = preprocessor_json};

/// NaFlex models; their presets are among SigLIP's.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization): as above
constinit const Family siglip_naflex{
    .description = "NaFlex models of SigLIP 2 (\"siglip2\")",
    .vision_names = {"vision_model.", kVisionParts},
    .text_names = {"text_model.", kTextParts},
    .vision = [](const Fields& config) { return parse_vision(config, true); },
    .text = [](const Fields& config) { return parse_text(config, true); },
    .preprocessing = [](const Fields& fields) { return parse_preprocessing(fields, true); },
    .config_json = config_json,
    .preprocessor_json = preprocessor_json};

}  // namespace fovea::model
