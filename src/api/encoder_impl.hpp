// The implementation behind the public Encoder.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "api/input_buffers.hpp"
#include "fovea/encoder.hpp"
#include "image/image.hpp"
#include "model/encoder.hpp"

namespace fovea {

struct Encoder::Impl {
  std::unique_ptr<model::Encoder> encoder;
  InputBuffers buffers{[this](std::size_t bytes) { return encoder->allocate_input(bytes); }};

  Impl(const std::string& model, const EncoderOptions& options);

  [[nodiscard]] const Preprocessing& preprocessing() const {
    return encoder->config().preprocessing;
  }
  [[nodiscard]] std::size_t pixel_bytes() const {
    return static_cast<std::size_t>(preprocessing().height) *
           static_cast<std::size_t>(preprocessing().width) * image::kChannels;
  }
};

}  // namespace fovea
