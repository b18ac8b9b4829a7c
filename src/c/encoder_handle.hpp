// fovea_encoder, and conversions from arguments of the C interface to those of the C++ API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "c/lifetime.hpp"
#include "fovea/c/encoder.h"
#include "fovea/encoder.hpp"

struct fovea_encoder {
  std::shared_ptr<fovea::Encoder> encoder;  // shared with runs that outlive their handle
  std::string device;
  std::string precision;
  fovea::c::Process process;
};

namespace fovea::c {

/// Converts images. Throws fovea::Error when one is invalid.
[[nodiscard]] ImageInput image_input(const fovea_image& image, std::size_t index);
[[nodiscard]] std::vector<ImageInput> image_inputs(const fovea_image* images, std::size_t count);
/// Converts a fovea_text_clean.
[[nodiscard]] TextClean text_clean(std::int32_t clean);
/// Throws fovea::Error when the encoder is NULL or belongs to another process.
void require_here(const fovea_encoder* encoder);

}  // namespace fovea::c
