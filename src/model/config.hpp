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

/// How the embedding of an image comes from the tokens of the last layer.
enum class Pooling : std::uint8_t {
  kNone,       // there is no embedding
  kAttention,  // by the multi-head attention pooling head of SigLIP (ops/pool.hpp)
  kToken,      // the first token, normalised
};

/// A tower of images: what config.json says of it, and how its family is built. The initial values
/// are transformers' defaults of SigLIP, which sparse config.json files omit (transformers@d5ab4d5
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
  std::int64_t prefix_tokens = 0;  // before those of the patches, such as a class token
  /// A NaFlex model, whose images have sizes of their own; image_size is then 0.
  bool naflex = false;
  std::int64_t num_patches = 256;  // of such a model: rows of its position table
  std::int64_t max_patches = 256;  // of such a model's images: Preprocessing::max_patches
  const Family* family = &siglip;

  [[nodiscard]] std::int64_t head_dim() const { return hidden / heads; }
  /// The side of the position table's square, in patches.
  [[nodiscard]] std::int64_t grid() const;
  /// Patches of an image; of a NaFlex model those of the position table.
  [[nodiscard]] std::int64_t patches() const { return grid() * grid(); }
  /// Tokens per image, N; of a NaFlex model the most.
  [[nodiscard]] std::int64_t tokens() const {
    return prefix_tokens + (naflex ? max_patches : patches());
  }
  /// Bytes of one patch, p * p * 3.
  [[nodiscard]] std::int64_t patch_elements() const { return patch * patch * 3; }

  [[nodiscard]] TowerSpec tower() const;

  friend bool operator==(const VisionConfig&, const VisionConfig&) = default;
};

/// A tower of texts, with transformers' defaults of SigLIP, as above.
struct TextConfig {
  std::int64_t hidden = 768;        // hidden_size, h
  std::int64_t mlp = 3072;          // intermediate_size
  std::int64_t layers = 12;         // num_hidden_layers
  std::int64_t heads = 12;          // num_attention_heads
  std::int64_t vocabulary = 32000;  // vocab_size
  std::int64_t tokens = 64;         // max_position_embeddings: every text is padded to as many
  std::int64_t projection = 768;    // projection_size, or hidden_size without it
  double layer_norm_eps = 1e-6;     // layer_norm_eps
  ops::Epilogue activation = ops::Epilogue::kGeluTanh;
  const Family* family = &siglip;

  [[nodiscard]] TowerSpec tower() const;

  friend bool operator==(const TextConfig&, const TextConfig&) = default;
};

/// The families of models that a program reads.
using Families = std::span<const Family* const>;
/// All that files of families/ define.
[[nodiscard]] Families families();

/// Parses the vision tower's part of config.json, by the family whose model_type it has. Throws
/// fovea::Error naming the architecture when it is of none, or the field that is not supported.
/// `file` is the name that messages begin with.
[[nodiscard]] VisionConfig parse_config(std::string_view json,
                                        std::string_view file = "config.json",
                                        Families among = families());

/// Parses the text tower's part of config.json. Throws fovea::Error when the model has no text
/// tower, or one that is not supported.
[[nodiscard]] TextConfig parse_text_config(std::string_view json,
                                           std::string_view file = "config.json",
                                           Families among = families());

/// Parses preprocessor_config.json as the tower's family reads it: of SigLIP, absent fields take
/// the defaults of SiglipImageProcessor (bicubic, 224 x 224, mean and std 0.5) or, of a NaFlex
/// model, of Siglip2ImageProcessor (bilinear, 256 patches of 16 x 16 pixels). Throws fovea::Error
/// for another model's processor.
[[nodiscard]] Preprocessing parse_preprocessor_config(
    std::string_view json, std::string_view file = "preprocessor_config.json",
    const VisionConfig& vision = {});

/// Reads both files of a model folder and checks that they agree on the size of images and patches.
/// processor_config.json, into which transformers 5 saves a whole processor, stands in for a
/// missing preprocessor_config.json.
struct ModelConfig {
  VisionConfig vision;
  Preprocessing preprocessing;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};
[[nodiscard]] ModelConfig read_model_config(const std::filesystem::path& folder,
                                            Families among = families());

/// Reads the text tower's part of the folder's config.json.
[[nodiscard]] TextConfig read_text_config(const std::filesystem::path& folder,
                                          Families among = families());

}  // namespace fovea::model
