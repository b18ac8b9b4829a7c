// TextEncoder: the SigLIP text tower, as a sequence of operators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "model/checkpoint.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

struct TextWeights;

/// The text tower, with a backend and weights prepared by that backend. The token table stays in
/// its file, which remains open: a row is read when a text contains its token.
class TextEncoder {
 public:
  /// `checkpoint` must have been opened for its text tower. Throws fovea::Error if its embeddings
  /// and those of images have different dimensions, if weights cannot be read, or if the backend's
  /// memory does not suffice.
  TextEncoder(std::unique_ptr<Checkpoint> checkpoint, std::unique_ptr<ops::Backend> backend);
  ~TextEncoder();

  [[nodiscard]] const TextConfig& config() const { return checkpoint_->text(); }
  [[nodiscard]] const ops::Backend& backend() const { return *backend_; }
  /// See Encoder.
  [[nodiscard]] std::string description() const;
  [[nodiscard]] std::string take_note() { return backend_->take_note(); }

  /// The factor and the bias of image-text logits: factor * cosine + bias, with the factor
  /// exp(logit_scale).
  [[nodiscard]] double logit_factor() const { return logit_factor_; }
  [[nodiscard]] double logit_bias() const { return logit_bias_; }

  /// `ids`: [texts, config().tokens], padded as the model was trained. `embeddings`: float32
  /// [texts, config().projection], transformers' pooler_output, not normalised. Calls take turns.
  /// Throws Interrupted soon after `stop` is set, and fovea::Error for a token that the table does
  /// not have. `on_computed`: see ops::Batch.
  void encode(std::span<const std::int32_t> ids, std::int64_t texts, std::span<float> embeddings,
              StopFlag stop = {}, const std::function<void(std::int64_t texts)>& on_computed = {});

 private:
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<TextWeights> weights_;
  double logit_factor_ = 1;
  double logit_bias_ = 0;
};

}  // namespace fovea::model
