// libfovea.so, which lies beside this library: opened by ourselves, not by the loader.
//
// As a dependency it would be bound to names of libraries that other packages have loaded, of other
// versions. Opened by itself it sees its own libraries first.
#pragma once

#include "fovea/c/operators.h"

namespace fovea::torch_operators {

struct Engine {
  decltype(&fovea_attention) attention;
  decltype(&fovea_patch_embed) patch_embed;
  decltype(&fovea_linear) linear;
  decltype(&fovea_layer_norm) layer_norm;
  decltype(&fovea_last_error) last_error;
};

/// Opened on first use. Throws with the loader's message.
[[nodiscard]] const Engine& engine();

/// Throws what went wrong, which torch raises as RuntimeError.
void check(fovea_status status);

}  // namespace fovea::torch_operators
