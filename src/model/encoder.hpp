// Encoder: the SigLIP vision tower, as a sequence of operators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "model/checkpoint.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

class VisionWeights;

/// Holds a backend and the weights that it has prepared.
class Encoder {
 public:
  Encoder(const Checkpoint& checkpoint, std::unique_ptr<ops::Backend> backend);
  ~Encoder();

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const ops::Backend& backend() const { return *backend_; }
  /// "the first 4 of 12 layers are in bf16", when the others are in 8 bits; else empty.
  [[nodiscard]] std::string bf16_layers() const;
  /// The backend's, and bf16_layers(): "cuda (NVIDIA H200, sm_90), int8; the first 4 of 12 layers
  /// are in bf16".
  [[nodiscard]] std::string description() const;
  /// See Backend.
  [[nodiscard]] std::string take_note() { return backend_->take_note(); }
  [[nodiscard]] HostBuffer allocate_input(std::size_t bytes) {
    return backend_->allocate_input(bytes);
  }
  /// Forgets the times in backend().profile().
  void reset_profile() { backend_->reset_profile(); }

  /// `patches`: uint8 [images, patches(), p, p, 3] (image::patchify).
  /// `embeddings`: float32 [images, hidden], transformers' pooler_output, not normalised.
  /// Calls take turns. Throws Interrupted soon after `stop` is set. `on_computed`: see ops::Batch.
  void encode(std::span<const std::uint8_t> patches, std::int64_t images,
              std::span<float> embeddings, StopFlag stop = {},
              std::function<void(std::int64_t images)> on_computed = {});

  /// The same for images of a NaFlex model, which have sizes of their own: `patches` are uint8
  /// [patches of all images, p, p, 3], one image after the other, and `grids` their sizes. Of other
  /// models only the number of grids counts.
  void encode(std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
              std::span<float> embeddings, StopFlag stop = {},
              std::function<void(std::int64_t images)> on_computed = {});

 private:
  void run(std::span<const std::uint8_t> patches, std::int64_t images,
           std::span<const PatchGrid> grids, std::int64_t rows, std::span<float> embeddings,
           StopFlag stop, std::function<void(std::int64_t images)> on_computed);

  ModelConfig config_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<VisionWeights> weights_;
};

}  // namespace fovea::model
