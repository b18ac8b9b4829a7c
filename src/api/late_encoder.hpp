// LateEncoder: a job's model, whose weights are loaded after decoding has begun.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "core/host_buffer.hpp"
#include "core/stop.hpp"
#include "model/encoder.hpp"
#include "ops/backend.hpp"
#include "pipeline/run.hpp"

namespace fovea {

class LateEncoder {
 public:
  /// `calibrations`: as for model::Checkpoint.
  LateEncoder(std::filesystem::path folder, std::filesystem::path calibrations,
              std::unique_ptr<ops::Backend> backend)
      : folder_(std::move(folder)),
        calibrations_(std::move(calibrations)),
        backend_(std::move(backend)) {}

  [[nodiscard]] const ops::Backend& backend() const {
    return encoder_ ? encoder_->backend() : *backend_;
  }
  [[nodiscard]] HostBuffer allocate_input(std::size_t bytes) {
    return backend_ ? backend_->allocate_input(bytes) : encoder_->allocate_input(bytes);
  }

  /// Loads the weights. Returns the function that computes embeddings or, if given, `features`
  /// as `type`.
  pipeline::Encode load(const std::optional<model::Features>& features, DType type,
                        const std::function<void(std::string_view)>& on_note, StopFlag stop);

 private:
  std::filesystem::path folder_;
  std::filesystem::path calibrations_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<model::Encoder> encoder_;
};

}  // namespace fovea
