// The patch embedding: what it prints, and what makes sense.
#include "ops/patch_embed/op.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"

namespace fovea::ops {

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
    return {fmt::format("{} tokens cannot precede the patches of each image{}", problem.prefix,
                        problem.varlen() ? " where images have different sizes" : "")};
  }
  if (Support total = problem.varlen() ? valid_total(problem) : Support{}; !total) {
    return total;
  }
  if (problem.input != DType::kU8 && problem.input != problem.output) {
    return {"patches are u8, or of the output's type"};
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
    fail("a patch of {} elements is not made of 3 channels", weights.projection.in);
  }
  if (weights.position.empty() ||
      weights.position.size() % static_cast<std::size_t>(weights.projection.out) != 0) {
    fail("a position table of {} numbers is not made of rows of {}", weights.position.size(),
         weights.projection.out);
  }
  if (weights.position_side != 0) {
    check_length("a square position table", weights.position.size(),
                 weights.position_side * weights.position_side * weights.projection.out);
  }
  if (weights.prefix.size() % static_cast<std::size_t>(weights.projection.out) != 0) {
    fail("{} numbers of tokens before the patches are not made of rows of {}",
         weights.prefix.size(), weights.projection.out);
  }
}

}  // namespace fovea::ops
