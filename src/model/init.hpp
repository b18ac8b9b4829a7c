// Writes a checkpoint of random weights in Hugging Face's layout.
#pragma once

#include "fovea/model.hpp"

namespace fovea::model {

/// See fovea::init_checkpoint.
void write_checkpoint(const InitOptions& options);

}  // namespace fovea::model
