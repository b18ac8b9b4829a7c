// Architecture of a model's two towers, and the preprocessing of images, read from Hugging Face's
// JSON files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "fovea/preprocessing.hpp"

namespace fovea::model {

enum class Tower : std::uint8_t { kVision, kText };

/// What the transformer layers of a tower need to know: they are the same for images and texts.
struct TowerConfig {
  Tower tower = Tower::kVision;
  std::int64_t tokens = 0;  // of an image or a text
  std::int64_t hidden = 0;
  std::int64_t mlp = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  double layer_norm_eps = 0;

  [[nodiscard]] std::int64_t head_dim() const { return hidden / heads; }
  /// How the names of its tensors begin.
  [[nodiscard]] std::string_view prefix() const {
    return tower == Tower::kVision ? "vision_model." : "text_model.";
  }
};

/// Fields of `vision_config`; the initial values are transformers' defaults, which sparse
/// config.json files omit (transformers@d5ab4d5 models/siglip/configuration_siglip.py).
struct VisionConfig {
  std::int64_t hidden = 768;      // hidden_size, h
  std::int64_t mlp = 3072;        // intermediate_size
  std::int64_t layers = 12;       // num_hidden_layers
  std::int64_t heads = 12;        // num_attention_heads
  std::int64_t image_size = 224;  // image_size, S
  std::int64_t patch = 16;        // patch_size, p
  double layer_norm_eps = 1e-6;   // layer_norm_eps
  bool head = true;               // vision_use_head: without it there is no embedding of an image
  /// A NaFlex model, whose images have sizes of their own; image_size is then 0.
  bool naflex = false;
  std::int64_t num_patches = 256;  // of such a model: rows of its position table
  std::int64_t max_patches = 256;  // of such a model's images: Preprocessing::max_patches

  [[nodiscard]] std::int64_t head_dim() const { return hidden / heads; }
  /// The side of the position table's square, in patches.
  [[nodiscard]] std::int64_t grid() const;
  /// Rows of the position table.
  [[nodiscard]] std::int64_t patches() const { return grid() * grid(); }
  /// Tokens per image, N; of a NaFlex model the most.
  [[nodiscard]] std::int64_t tokens() const { return naflex ? max_patches : patches(); }
  /// Bytes of one patch, p * p * 3.
  [[nodiscard]] std::int64_t patch_elements() const { return patch * patch * 3; }

  [[nodiscard]] TowerConfig tower() const {
    return {.tower = Tower::kVision,
            .tokens = tokens(),
            .hidden = hidden,
            .mlp = mlp,
            .layers = layers,
            .heads = heads,
            .layer_norm_eps = layer_norm_eps};
  }

  friend bool operator==(const VisionConfig&, const VisionConfig&) = default;
};

/// Fields of `text_config`, with transformers' defaults, as above.
struct TextConfig {
  std::int64_t hidden = 768;        // hidden_size, h
  std::int64_t mlp = 3072;          // intermediate_size
  std::int64_t layers = 12;         // num_hidden_layers
  std::int64_t heads = 12;          // num_attention_heads
  std::int64_t vocabulary = 32000;  // vocab_size
  std::int64_t tokens = 64;         // max_position_embeddings: every text is padded to as many
  std::int64_t projection = 768;    // projection_size, or hidden_size without it
  double layer_norm_eps = 1e-6;     // layer_norm_eps

  [[nodiscard]] TowerConfig tower() const {
    return {.tower = Tower::kText,
            .tokens = tokens,
            .hidden = hidden,
            .mlp = mlp,
            .layers = layers,
            .heads = heads,
            .layer_norm_eps = layer_norm_eps};
  }

  friend bool operator==(const TextConfig&, const TextConfig&) = default;
};

/// Parses config.json: a `siglip` or, of a NaFlex model, `siglip2` configuration with its
/// `vision_config`, or the `siglip_vision_model` or `siglip2_vision_model` configuration of a
/// vision tower alone. Throws fovea::Error naming the architecture when it is another (CLIP, ...),
/// or the field that is not supported. `file` is the name that messages begin with.
[[nodiscard]] VisionConfig parse_config(std::string_view json,
                                        std::string_view file = "config.json");

/// Parses the `text_config` of config.json. Throws fovea::Error when the model has no text tower,
/// or one that is not supported.
[[nodiscard]] TextConfig parse_text_config(std::string_view json,
                                           std::string_view file = "config.json");

/// Parses preprocessor_config.json; absent fields take the defaults of SiglipImageProcessor
/// (bicubic, 224 x 224, mean and std 0.5) or, of a NaFlex model, of Siglip2ImageProcessor
/// (bilinear, 256 patches of 16 x 16 pixels). Throws fovea::Error for the other model's processor.
[[nodiscard]] Preprocessing parse_preprocessor_config(
    std::string_view json, std::string_view file = "preprocessor_config.json", bool naflex = false);

/// Reads both files of a model folder and checks that they agree on the size of images and patches.
/// processor_config.json, into which transformers 5 saves a whole processor, stands in for a
/// missing preprocessor_config.json.
struct ModelConfig {
  VisionConfig vision;
  Preprocessing preprocessing;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};
[[nodiscard]] ModelConfig read_model_config(const std::filesystem::path& folder);

/// Reads the text tower's part of the folder's config.json.
[[nodiscard]] TextConfig read_text_config(const std::filesystem::path& folder);

}  // namespace fovea::model
