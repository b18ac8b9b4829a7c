// The patch embedding: checks, text form, and the reference in float64.
#include "ops/patch_embed/op.hpp"

#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {
namespace {

using reference::at;
using reference::Vector;

/// Returns the position embedding of an image of height x width patches: (height * width, hidden).
Vector positions(const PatchEmbedProblem& problem, const PatchEmbedWeights& weights,
                 std::int64_t height, std::int64_t width) {
  const std::int64_t side = problem.position_side;
  Vector found(at(height * width * problem.hidden));
  for (std::int64_t patch = 0; patch < height * width; ++patch) {
    const Vector down = reference::interpolation(patch / width, height, side);
    const Vector across = reference::interpolation(patch % width, width, side);
    for (std::int64_t cell = 0; cell < side * side; ++cell) {
      const double weight = down[at(cell / side)] * across[at(cell % side)];
      for (std::int64_t o = 0; weight > 0 && o < problem.hidden; ++o) {
        found[at(patch * problem.hidden + o)] +=
            weight * weights.position[at(cell * problem.hidden + o)];
      }
    }
  }
  return found;
}

template <typename View>
View skip_rows(const View& view, std::int64_t first, std::int64_t width) {
  View rows = view;
  rows.data =
      view.template as<std::byte>() + static_cast<std::size_t>(first * width) * size_of(view.dtype);
  return rows;
}

/// The patch embedding of images of equal size, in float64.
void embed(const PatchEmbedProblem& problem, const PatchEmbedWeights& weights,
           const ConstTensorView& patches, const TensorView& tokens) {
  for (std::int64_t i = 0; i < problem.images * problem.prefix * problem.hidden; ++i) {
    const std::int64_t width = problem.prefix * problem.hidden;
    const std::int64_t image = i / width * (problem.prefix + problem.tokens) * problem.hidden;
    reference::store(tokens, image + i % width, weights.prefix[at(i % width)]);
  }
  for (std::int64_t row = 0; row < problem.patches(); ++row) {
    Vector x = reference::read_row(patches, row, problem.patch_elements);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = x[i] * weights.scale[i % 3] + weights.shift[i % 3];
    }
    const Vector y = reference::forward(weights.projection, x);
    const std::int64_t position = row % problem.tokens * problem.hidden;
    const std::int64_t target = row + (row / problem.tokens + 1) * problem.prefix;
    for (std::int64_t o = 0; o < problem.hidden; ++o) {
      reference::store(tokens, target * problem.hidden + o,
                       y[at(o)] + weights.position[at(position + o)]);
    }
  }
}

}  // namespace

std::string to_string(const PatchEmbedProblem& problem) {
  return fmt::format(
      "patch_embed: {} images of {}{}{} patches, [{}, {}] {} x [{}, {}]^T -> {}", problem.images,
      problem.prefix > 0 ? fmt::format("{} tokens and ", problem.prefix) : "",
      problem.varlen() ? "up to " : "", problem.tokens, problem.patches(), problem.patch_elements,
      to_string(problem.input), problem.hidden, problem.patch_elements, to_string(problem.output));
}

Support valid(const PatchEmbedProblem& problem) {
  if (Support sizes =
          valid_sizes({problem.images, problem.tokens, problem.patch_elements, problem.hidden});
      !sizes) {
    return sizes;
  }
  if (Support rows = valid_sizes({problem.rows()}); !rows) {
    return rows;
  }
  if (problem.prefix < 0 || (problem.varlen() && problem.prefix > 0)) {
    return {fmt::format("the patches of an image cannot have {} prefix tokens{}", problem.prefix,
                        problem.varlen() ? " if images have different sizes" : "")};
  }
  if (Support total = problem.varlen() ? valid_total(problem) : Support{}; !total) {
    return total;
  }
  if (problem.input != DType::kU8 && problem.input != problem.output) {
    return {"patches must be u8 or have the output's type"};
  }
  return valid_if(is_float(problem.output), "the output is not a float type");
}

void check(const PatchEmbedCall& call) {
  const PatchEmbedProblem& problem = call.problem;
  check_problem(problem);
  check_shapes(problem, problem.varlen(), call.shapes);
  check_tensor(problem, "patches", call.patches, DType::kU8,
               {problem.patches(), problem.patch_elements});
  check_tensor(problem, "tokens", call.tokens, problem.output, {problem.rows(), problem.hidden});
}

void check_weights(const PatchEmbedWeights& weights) {
  check_weights(weights.projection);
  if (weights.projection.in % 3 != 0) {
    fail("patches have {} elements, which is not a multiple of 3 channels", weights.projection.in);
  }
  if (weights.position.empty() ||
      weights.position.size() % static_cast<std::size_t>(weights.projection.out) != 0) {
    fail("the position table has {} numbers, which is not a positive multiple of {}",
         weights.position.size(), weights.projection.out);
  }
  if (weights.position_side != 0) {
    check_length("the square position table", weights.position.size(),
                 weights.position_side * weights.position_side * weights.projection.out);
  }
  if (weights.prefix.size() % static_cast<std::size_t>(weights.projection.out) != 0) {
    fail("the prefix tokens have {} numbers, which is not a multiple of {}", weights.prefix.size(),
         weights.projection.out);
  }
}

void run(const PatchEmbedCall& call, reference::ReferenceExecutor& /*executor*/) {
  const PatchEmbedProblem& problem = call.problem;
  const auto& weights = reference::kept<PatchEmbedWeights>(call.weights);
  if (!call.shapes.differ()) {
    embed(problem, weights, call.patches, call.tokens);
    return;
  }
  for (std::int64_t image = 0; image < problem.images; ++image) {
    const auto* const grid = pointer<const std::int32_t>(call.shapes.grids) + 2 * image;
    const Vector table = positions(problem, weights, grid[0], grid[1]);
    const std::vector<float> narrow(table.begin(), table.end());
    PatchEmbedWeights resized = weights;
    resized.position = narrow;
    const auto [first, count] = reference::image_rows(problem, call.shapes, image);
    PatchEmbedProblem single = problem;
    single.images = 1;
    single.tokens = count;
    single.position_side = 0;
    embed(single, resized, skip_rows(call.patches, first, problem.patch_elements),
          skip_rows(call.tokens, first, problem.hidden));
  }
}

void keep(PatchEmbedWeights& weights, reference::Storage& storage) {
  keep(weights.projection, storage);
  storage.keep(weights.position);
  storage.keep(weights.prefix);
}

}  // namespace fovea::ops
