// Checks that operators share: of sizes, types and operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/support.hpp"
#include "core/tensor_view.hpp"
#include "ops/call.hpp"

namespace fovea::ops {

/// Whether the type stores numbers directly, without scale and offset.
[[nodiscard]] bool is_float(DType type);
/// Whether tensors of this type can have a scale for each row.
[[nodiscard]] bool takes_row_scales(DType type);

/// Whether a size is positive and so small that products of two sizes do not overflow.
[[nodiscard]] bool is_dim(std::int64_t dim);
/// Whether all sizes are such sizes.
[[nodiscard]] Support valid_sizes(std::initializer_list<std::int64_t> sizes);
[[nodiscard]] Support valid_if(bool condition, std::string_view why);
/// Whether the total number of tokens is possible for images of 1 to `tokens` tokens each.
template <typename Problem>
[[nodiscard]] Support valid_total(const Problem& problem) {
  if (problem.total >= problem.images && problem.total <= problem.images * problem.tokens) {
    return {};
  }
  return {fmt::format("{} images of 1 to {} tokens cannot have {} tokens in total", problem.images,
                      problem.tokens, problem.total)};
}

/// Throws fovea::Error unless `length` is `expected`.
void check_length(std::string_view what, std::size_t length, std::int64_t expected);
/// Throws fovea::Error unless `view` has this type and shape; the message names `problem` and
/// `what`.
void check_operand(const std::string& problem, std::string_view what, const ConstTensorView& view,
                   DType dtype, std::initializer_list<std::int64_t> shape);
[[nodiscard]] bool fits(const ConstTensorView& view, DType dtype,
                        std::initializer_list<std::int64_t> shape);

template <typename Problem>
void check_problem(const Problem& problem) {
  if (const Support support = valid(problem); !support) {
    fail("{}: {}", to_string(problem), support.why);
  }
}

/// The same as check_operand, but formats `problem` only on failure, since this runs for every
/// operator of every slice.
template <typename Problem>
void check_tensor(const Problem& problem, std::string_view what, const ConstTensorView& view,
                  DType dtype, std::initializer_list<std::int64_t> shape) {
  if (!fits(view, dtype, shape)) {
    check_operand(to_string(problem), what, view, dtype, shape);
  }
}

/// Throws fovea::Error unless `shapes` are set if and only if the images have different sizes.
template <typename Problem>
void check_shapes(const Problem& problem, bool varlen, const ImageShapes& shapes) {
  if (varlen != shapes.differ()) {
    fail("{}: {}", to_string(problem),
         varlen ? "the shapes of its images are missing"
                : "its images have one size, but shapes are set");
  }
}

}  // namespace fovea::ops
