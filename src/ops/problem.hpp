// Problems: what is asked of an operator (shapes, types, epilogue), apart from how it is done.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/tensor_view.hpp"
#include "ops/attention.hpp"
#include "ops/layer_norm.hpp"
#include "ops/linear.hpp"
#include "ops/patch_embed.hpp"
#include "ops/pool.hpp"
#include "ops/project.hpp"

namespace fovea::ops {

/// Throws fovea::Error unless `view` has this type and shape; `problem` and `what` are named.
void check_operand(const std::string& problem, std::string_view what, const ConstTensorView& view,
                   DType dtype, std::initializer_list<std::int64_t> shape);

}  // namespace fovea::ops
