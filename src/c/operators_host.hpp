// What stands behind the C operators on the host. Arguments have been checked.
#pragma once

#include "fovea/c/operators.h"

namespace fovea::c {

void attention_on_host(const fovea_attention_args& args, int threads);
void linear_on_host(const fovea_linear_args& args, int threads);
void patch_embed_on_host(const fovea_patch_embed_args& args, int threads);
void layer_norm_on_host(const fovea_layer_norm_args& args, int threads);

}  // namespace fovea::c
