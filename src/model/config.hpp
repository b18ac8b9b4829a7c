// Architecture of a model's two towers, and the preprocessing of images, read from Hugging Face's
// JSON files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "fovea/preprocessing.hpp"
#include "model/tower_spec.hpp"
#include "ops/linear/op.hpp"

namespace fovea::model {

struct Family;
extern const Family siglip;  // families/siglip.cpp

/// How the embedding of an image is computed from the tokens of the last layer.
enum class Pooling : std::uint8_t {
  kNone,       // no embedding
  kAttention,  // the multi-head attention pooling head of SigLIP (ops/pool.hpp)
  kToken,      // the first token, normalised
};

/// A vision tower: the values from config.json and the properties of its family. The initial values
/// are transformers' defaults for SigLIP, which sparse config.json files omit (transformers@d5ab4d5
/// models/siglip/configuration_siglip.py).
struct VisionConfig {
  std::int64_t hidden = 768;                            // hidden_size, h
  std::int64_t mlp = 3072;                              // intermediate_size
  std::int64_t layers = 12;                             // num_hidden_layers
  std::int64_t heads = 12;                              // num_attention_heads
  std::int64_t image_size = 224;                        // image_size, S
  std::int64_t patch = 16;                              // patch_size, p
  double layer_norm_eps = 1e-6;                         // layer_norm_eps
  ops::Epilogue activation = ops::Epilogue::kGeluTanh;  // between the layers of an MLP
  Pooling pooling = Pooling::kAttention;
  std::int64_t prefix_tokens = 0;  // tokens before the patches, such as a class token
  /// Whether this is a NaFlex model, whose images have different sizes; image_size is then 0.
  bool naflex = false;
  std::int64_t num_patches = 256;  // NaFlex: rows of the position table
  std::int64_t max_patches = 256;  // NaFlex: Preprocessing::max_patches
  const Family* family = &siglip;

  [[nodiscard]] std::int64_t head_dim() const { return hidden / heads; }
  /// The side of the square position table, in patches.
  [[nodiscard]] std::int64_t grid() const;
  /// Patches per image; for a NaFlex model, positions of the table.
  [[nodiscard]] std::int64_t patches() const { return grid() * grid(); }
  /// Tokens per image, N; for a NaFlex model, the maximum.
  [[nodiscard]] std::int64_t tokens() const {
    return prefix_tokens + (naflex ? max_patches : patches());
  }
  /// Bytes of one patch, p * p * 3.
  [[nodiscard]] std::int64_t patch_elements() const { return patch * patch * 3; }

  [[nodiscard]] TowerSpec tower() const;

  friend bool operator==(const VisionConfig&, const VisionConfig&) = default;
};

/// A text tower. The initial values are transformers' defaults for SigLIP, as for VisionConfig.
struct TextConfig {
  std::int64_t hidden = 768;        // hidden_size, h
  std::int64_t mlp = 3072;          // intermediate_size
  std::int64_t layers = 12;         // num_hidden_layers
  std::int64_t heads = 12;          // num_attention_heads
  std::int64_t vocabulary = 32000;  // vocab_size
  std::int64_t tokens = 64;         // max_position_embeddings: every text is padded to this length
  std::int64_t projection = 768;    // projection_size, or hidden_size if absent
  double layer_norm_eps = 1e-6;     // layer_norm_eps
  ops::Epilogue activation = ops::Epilogue::kGeluTanh;
  const Family* family = &siglip;

  [[nodiscard]] TowerSpec tower() const;

  friend bool operator==(const TextConfig&, const TextConfig&) = default;
};

/// The families of models that a program reads.
using Families = std::span<const Family* const>;
/// All families defined in families/.
[[nodiscard]] Families families();

/// Parses the vision tower's part of config.json with the family that supports its model_type.
/// Throws fovea::Error with the model_type if no family supports it, or with the unsupported field.
/// Messages begin with `file`.
[[nodiscard]] VisionConfig parse_config(std::string_view json,
                                        std::string_view file = "config.json",
                                        Families supported = families());

/// Parses the text tower's part of config.json. Throws fovea::Error when the model has no text
/// tower, or one that is not supported.
[[nodiscard]] TextConfig parse_text_config(std::string_view json,
                                           std::string_view file = "config.json",
                                           Families supported = families());

/// Parses preprocessor_config.json with the tower's family. For SigLIP, absent fields take the
/// defaults of SiglipImageProcessor (bicubic, 224 x 224, mean and std 0.5) or, for a NaFlex model,
/// of Siglip2ImageProcessor (bilinear, 256 patches of 16 x 16 pixels). Throws fovea::Error for
/// another model's processor.
[[nodiscard]] Preprocessing parse_preprocessor_config(
    std::string_view json, std::string_view file = "preprocessor_config.json",
    const VisionConfig& vision = {});

/// The contents of config.json and preprocessor_config.json in a model folder, checked to agree on
/// the size of images and patches. If preprocessor_config.json is missing, it is read from
/// processor_config.json, in which transformers 5 saves a whole processor.
struct ModelConfig {
  VisionConfig vision;
  Preprocessing preprocessing;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};
[[nodiscard]] ModelConfig read_model_config(const std::filesystem::path& folder,
                                            Families supported = families());

/// Reads the text tower's part of the folder's config.json.
[[nodiscard]] TextConfig read_text_config(const std::filesystem::path& folder,
                                          Families supported = families());

}  // namespace fovea::model
