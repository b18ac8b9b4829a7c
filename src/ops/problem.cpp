// Printing and checking of problems and of the weights that go with them.
#include "ops/problem.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/weights.hpp"

namespace fovea::ops {
namespace {

bool is_float(DType type) {
  return type != DType::kU8 && type != DType::kI8;
}

/// Numbers in one byte, with scales.
bool is_narrow(DType type) {
  return size_of(type) == 1;
}

// Sizes beyond this make products of two of them overflow.
constexpr std::int64_t kMaxDim = std::int64_t{1} << 31;

bool is_dim(std::int64_t dim) {
  return dim > 0 && dim < kMaxDim;
}

void check_length(std::string_view what, std::size_t have, std::int64_t want) {
  if (want < 0 || have != static_cast<std::size_t>(want)) {
    fail("{} holds {} numbers, {} expected", what, have, want);
  }
}

}  // namespace

std::string to_string(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return "none";
    case Epilogue::kGeluTanh:
      return "gelu_tanh";
    case Epilogue::kResidual:
      return "residual";
  }
  return "?";
}

std::string to_string(const PatchEmbedProblem& problem) {
  return fmt::format("patch_embed: {} images of {} patches, [{}, {}] u8 x [{}, {}]^T -> {}",
                     problem.images, problem.tokens, problem.rows(), problem.patch_elements,
                     problem.hidden, problem.patch_elements, to_string(problem.output));
}

std::string to_string(const LayerNormProblem& problem) {
  return fmt::format("layer_norm: [{}, {}] {} -> {}, eps {}", problem.rows, problem.width,
                     to_string(problem.input), to_string(problem.output), problem.eps);
}

std::string to_string(const LinearProblem& problem) {
  return fmt::format("linear {}: [{}, {}] {}{} x [{}, {}]^T -> {}, {}", problem.name, problem.rows,
                     problem.in, to_string(problem.input),
                     problem.norm ? fmt::format(" normalised, eps {},", problem.eps) : "",
                     problem.out, problem.in, to_string(problem.output),
                     to_string(problem.epilogue));
}

std::string to_string(const AttentionProblem& problem) {
  return fmt::format("attention: {} images, {} tokens, {} heads of {}, {} -> {}", problem.images,
                     problem.tokens, problem.heads, problem.head_dim, to_string(problem.type),
                     to_string(problem.output));
}

std::string to_string(const PoolProblem& problem) {
  return fmt::format("pool: {} images, {} tokens of {} {}, {} heads, mlp {}, eps {}",
                     problem.images, problem.tokens, problem.hidden, to_string(problem.input),
                     problem.heads, problem.mlp, problem.eps);
}

std::string reason_invalid(const PatchEmbedProblem& problem) {
  if (!is_dim(problem.images) || !is_dim(problem.tokens) || !is_dim(problem.patch_elements) ||
      !is_dim(problem.hidden)) {
    return "a dimension is not positive or too large";
  }
  if (problem.patch_elements % 3 != 0) {
    return "a patch is not made of 3 channels";
  }
  return is_float(problem.output) ? "" : "the output is not a float type";
}

std::string reason_invalid(const LayerNormProblem& problem) {
  if (!is_dim(problem.rows) || !is_dim(problem.width)) {
    return "a dimension is not positive or too large";
  }
  if (!(problem.eps >= 0)) {
    return "eps is negative";
  }
  if (problem.row_scales && !is_narrow(problem.output)) {
    return "only outputs of one-byte types have a scale for each row";
  }
  return is_float(problem.input) ? "" : "the input is not a float type";
}

std::string reason_invalid(const LinearProblem& problem) {
  if (!is_dim(problem.rows) || !is_dim(problem.in) || !is_dim(problem.out)) {
    return "a dimension is not positive or too large";
  }
  if (problem.row_scales && !is_narrow(problem.input)) {
    return "only inputs of one-byte types have a scale for each row";
  }
  if (problem.norm && (!is_float(problem.input) || !(problem.eps >= 0))) {
    return "the input cannot be normalised: it is not of a float type, or eps is negative";
  }
  return problem.epilogue == Epilogue::kResidual && !is_float(problem.output)
             ? "residuals are not added in a one-byte type"
             : "";
}

std::string reason_invalid(const AttentionProblem& problem) {
  if (!is_dim(problem.images) || !is_dim(problem.tokens) || !is_dim(problem.heads) ||
      !is_dim(problem.head_dim)) {
    return "a dimension is not positive or too large";
  }
  if (!std::isfinite(problem.scale) || problem.scale <= 0) {
    return "the scale is not positive and finite";
  }
  return is_float(problem.type) && is_float(problem.output) ? "" : "an operand is not a float type";
}

std::string reason_invalid(const PoolProblem& problem) {
  if (!is_dim(problem.images) || !is_dim(problem.tokens) || !is_dim(problem.heads) ||
      !is_dim(problem.hidden) || !is_dim(problem.mlp)) {
    return "a dimension is not positive or too large";
  }
  if (problem.hidden % problem.heads != 0) {
    return "the heads do not divide the hidden size";
  }
  if (!(problem.eps >= 0)) {
    return "eps is negative";
  }
  return is_float(problem.input) ? "" : "the input is not a float type";
}

void check_operand(const std::string& problem, std::string_view what, const ConstTensorView& view,
                   DType dtype, std::initializer_list<std::int64_t> shape) {
  const Shape want(shape);
  if (view.data == nullptr) {
    fail("{}: no memory for {}", problem, what);
  }
  if (view.dtype != dtype || view.shape != want) {
    fail("{}: {} is {} {}, {} {} expected", problem, what, to_string(view.dtype),
         view.shape.to_string(), to_string(dtype), want.to_string());
  }
}

void check_weights(const LinearWeights& weights) {
  if (!is_dim(weights.in) || !is_dim(weights.out)) {
    fail("a linear layer of {} inputs and {} outputs makes no sense", weights.in, weights.out);
  }
  check_length("a linear layer's weight", weights.weight.size(), weights.in * weights.out);
  check_length("a linear layer's bias", weights.bias.size(), weights.out);
  if (!weights.norm.weight.empty()) {
    check_weights(weights.norm);
    check_length("the norm before a linear layer", weights.norm.weight.size(), weights.in);
  }
}

void check_weights(const LayerNormWeights& weights) {
  check_length("a layer norm's bias", weights.bias.size(),
               static_cast<std::int64_t>(weights.weight.size()));
}

void check_weights(const PatchEmbedWeights& weights) {
  check_weights(weights.projection);
  if (weights.position.empty() ||
      weights.position.size() % static_cast<std::size_t>(weights.projection.out) != 0) {
    fail("a position table of {} numbers is not made of rows of {}", weights.position.size(),
         weights.projection.out);
  }
}

void check_weights(const PoolWeights& weights) {
  check_weights(weights.value);
  check_weights(weights.out);
  check_weights(weights.norm);
  check_weights(weights.input_norm);
  check_weights(weights.fc1);
  check_weights(weights.fc2);
  const std::int64_t hidden = weights.value.in;
  if (weights.heads <= 0 || weights.value.out != hidden || hidden % weights.heads != 0 ||
      weights.out.in != hidden || weights.out.out != hidden || weights.fc1.in != hidden ||
      weights.fc2.out != hidden || weights.fc2.in != weights.fc1.out) {
    fail("the layers of the pooling head do not fit together at hidden size {}, {} heads", hidden,
         weights.heads);
  }
  check_length("the pooling head's keys", weights.key.size(), weights.heads * hidden);
  check_length("the pooling head's norm", weights.norm.weight.size(), hidden);
  if (!weights.input_norm.weight.empty()) {
    check_length("the norm before the pooling head", weights.input_norm.weight.size(), hidden);
  }
}

}  // namespace fovea::ops
