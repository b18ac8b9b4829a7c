// Loads the weights on first use.
#include "api/late_encoder.hpp"

#include <string>

#include "model/checkpoint.hpp"

namespace fovea {

pipeline::Encode LateEncoder::load(const std::optional<model::Features>& features, DType type,
                                   const std::function<void(std::string_view)>& on_note,
                                   StopFlag stop) {
  if (!encoder_) {
    const model::Checkpoint checkpoint(folder_, stop, model::Tower::kVision, calibrations_);
    encoder_ = std::make_unique<model::Encoder>(checkpoint, std::move(backend_));
    if (const std::string note = encoder_->calibration_words(); !note.empty() && on_note) {
      on_note(note);
    }
  }
  return [this, features, type, on_note, stop](
             std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
             std::span<std::byte> rows, const pipeline::OnComputed& on_computed) {
    if (features) {
      encoder_->features(*features, patches, grids, {.type = type, .bytes = rows}, stop,
                         on_computed);
    } else {
      encoder_->encode(patches, grids, pipeline::as_floats(rows), stop, on_computed);
    }
    if (const std::string note = encoder_->take_note(); !note.empty() && on_note) {
      on_note(note);
    }
  };
}

}  // namespace fovea
