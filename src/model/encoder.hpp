// Encoder: the SigLIP vision tower, as a sequence of operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "model/checkpoint.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

class VisionWeights;
class Forward;

/// Features of an image that the tower provides besides its embedding.
struct Features {
  enum class Kind : std::uint8_t {
    kHidden,   // tokens after the first `layers` layers, as transformers' hidden_states[layers]
    kLast,     // tokens after all layers and the last norm: last_hidden_state
    kPooled,   // the pooling head's result: pooler_output
    kPatches,  // for each token, the pooling head's result when it attends to that token alone
  };
  Kind kind = Kind::kLast;
  std::int64_t layers = 0;  // for kHidden

  [[nodiscard]] bool of_tokens() const { return kind != Kind::kPooled; }
};

/// Throws fovea::Error if the model does not provide these features.
void require(const VisionConfig& vision, const Features& what);

/// The vision tower, with a backend and weights prepared by that backend.
class Encoder {
 public:
  Encoder(const Checkpoint& checkpoint, std::unique_ptr<ops::Backend> backend);
  ~Encoder();

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const ops::Backend& backend() const { return *backend_; }
  /// See TowerWeights.
  [[nodiscard]] std::string calibration_words() const;
  /// Returns the backend's description and calibration_words(): "cuda (NVIDIA H200, sm_90), int8;
  /// the first 4 of 12 layers are in bf16".
  [[nodiscard]] std::string description() const;
  /// See Backend.
  [[nodiscard]] std::string take_note() { return backend_->take_note(); }
  [[nodiscard]] HostBuffer allocate_input(std::size_t bytes) {
    return backend_->allocate_input(bytes);
  }
  /// Resets the times in backend().profile().
  void reset_profile() { backend_->reset_profile(); }

  /// `patches`: uint8 [images, patches(), p, p, 3] (image::patchify).
  /// `embeddings`: float32 [images, hidden], transformers' pooler_output, not normalised.
  /// Calls take turns. Throws Interrupted soon after `stop` is set. `on_computed`: see ops::Batch.
  void encode(std::span<const std::uint8_t> patches, std::int64_t images,
              std::span<float> embeddings, StopFlag stop = {},
              std::function<void(std::int64_t images)> on_computed = {});

  /// The same for images of a NaFlex model, which have different sizes: `patches` are uint8
  /// [patches of all images, p, p, 3], concatenated, and `grids` are the sizes in patches. For
  /// other models, only the number of grids matters.
  void encode(std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
              std::span<float> embeddings, StopFlag stop = {},
              std::function<void(std::int64_t images)> on_computed = {});

  /// Memory for features that stay on the device; see Backend.
  [[nodiscard]] std::shared_ptr<ops::OutputMemory> allocate_output(std::size_t bytes) {
    return backend_->allocate_output(bytes);
  }
  /// Destination and type of features.
  struct FeatureOutput {
    DType type = DType::kF32;      // or kF16; values out of its range become infinite
    std::span<std::byte> bytes{};  // [images, tokens, hidden], or [images, hidden] for kPooled
    bool stays = false;            // whether `bytes` is memory from allocate_output
  };
  /// Computes features of the same inputs as encode(). Except for kPooled, images of a NaFlex model
  /// must be passed one at a time, because they have different numbers of tokens.
  void features(const Features& what, std::span<const std::uint8_t> patches,
                std::span<const PatchGrid> grids, const FeatureOutput& output, StopFlag stop = {},
                std::function<void(std::int64_t images)> on_computed = {});

 private:
  using Finish = std::function<void(ops::Executor&, const ops::Slice&, Forward&)>;

  /// Sets the common fields of a batch, and runs its first `layers` layers and then `finish`.
  void run(ops::Batch batch, std::int64_t layers, const Finish& finish);

  ModelConfig config_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<VisionWeights> weights_;
};

}  // namespace fovea::model
