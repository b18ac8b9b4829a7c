// What stands behind the C operators on GPUs. Arguments have been checked.
#pragma once

#include "fovea/c/operators.h"

namespace fovea::c {

void attention_on_gpu(const fovea_attention_args& args, const fovea_place& place);
void linear_on_gpu(const fovea_linear_args& args, const fovea_place& place);
void patch_embed_on_gpu(const fovea_patch_embed_args& args, const fovea_place& place);
void layer_norm_on_gpu(const fovea_layer_norm_args& args, const fovea_place& place);

/// The kernel that would run it, on its first launch. Throws when none does.
[[nodiscard]] fovea_attention_choice choose_on_gpu(const fovea_attention_args& args,
                                                   const fovea_place& place);

}  // namespace fovea::c
