// Printing and checking of problems and of the weights that go with them.
#include "ops/problem.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/weights.hpp"

namespace fovea::ops {
namespace {

/// Each number stands for itself.
bool is_float(DType type) {
  return type != DType::kU8 && type != DType::kI8 && type != DType::kMXFP8;
}

/// Numbers in one byte that their rows have scales for, if any.
bool takes_row_scales(DType type) {
  return size_of(type) == 1 && type != DType::kMXFP8;
}

// Sizes beyond this make products of two of them overflow.
constexpr std::int64_t kMaxDim = std::int64_t{1} << 31;

bool is_dim(std::int64_t dim) {
  return dim > 0 && dim < kMaxDim;
}

/// Whether all are sizes that products of two can be made of.
Support valid_sizes(std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) {
    if (!is_dim(size)) {
      return {fmt::format("a size of {} is not between 1 and 2^31", size)};
    }
  }
  return {};
}

Support valid_if(bool holds, std::string_view why) {
  return holds ? Support{} : Support{std::string(why)};
}

/// Whether images of one to the greatest number of tokens can have so many together.
template <typename Problem>
bool fits_images(const Problem& problem) {
  return problem.total >= problem.images && problem.total <= problem.images * problem.tokens;
}
template <typename Problem>
std::string too_many_rows(const Problem& problem) {
  return fmt::format("{} images of 1 to {} tokens cannot have {} together", problem.images,
                     problem.tokens, problem.total);
}

void check_length(std::string_view what, std::size_t have, std::int64_t want) {
  if (want < 0 || have != static_cast<std::size_t>(want)) {
    fail("{} holds {} numbers, {} expected", what, have, want);
  }
}

}  // namespace

std::string_view to_string(Place place) {
  constexpr std::array<std::string_view, kPlaces> kNames = {
      "pixels", "patch_embed", "layer_norm", "qkv",  "attention",
      "out",    "fc1",         "fc2",        "pool", "other"};
  return kNames.at(static_cast<std::size_t>(place));
}

std::string_view to_string(Epilogue epilogue) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "gelu_tanh", "gelu_erf", "residual"};
  return kNames.at(static_cast<std::size_t>(epilogue));
}

std::string to_string(const PatchEmbedProblem& problem) {
  return fmt::format(
      "patch_embed: {} images of {}{}{} patches, [{}, {}] {} x [{}, {}]^T -> {}", problem.images,
      problem.prefix > 0 ? fmt::format("{} tokens and ", problem.prefix) : "",
      problem.varlen() ? "up to " : "", problem.tokens, problem.patches(), problem.patch_elements,
      to_string(problem.input), problem.hidden, problem.patch_elements, to_string(problem.output));
}

std::string to_string(const LayerNormProblem& problem) {
  return fmt::format("layer_norm: [{}, {}] {} -> {}, eps {}", problem.rows, problem.width,
                     to_string(problem.input), to_string(problem.output), problem.eps);
}

std::string to_string(const LinearProblem& problem) {
  return fmt::format("linear {}: [{}, {}] {}{} x [{}, {}]^T -> {}, {}", to_string(problem.place),
                     problem.rows, problem.in, to_string(problem.input),
                     problem.norm ? fmt::format(" normalised, eps {},", problem.eps) : "",
                     problem.out, problem.in, to_string(problem.output),
                     to_string(problem.epilogue));
}

std::string to_string(const AttentionProblem& problem) {
  std::string text = fmt::format("attention ({},{}", problem.batch, problem.heads);
  if (problem.key_heads() != problem.heads) {
    text += fmt::format("/{}", problem.key_heads());
  }
  text += fmt::format(",{}", problem.queries);
  if (problem.keys != problem.queries) {
    text += fmt::format("x{}", problem.keys);
  }
  return text + fmt::format(",{}){}{} {}", problem.head_dim, problem.causal ? " causal" : "",
                            problem.varlen ? " varlen" : "", to_string(problem.type));
}

std::string to_string(const PoolProblem& problem) {
  return fmt::format("pool: {} images, {}{} tokens of {} {}, {} heads, mlp {}, eps {}",
                     problem.images, problem.varlen ? "up to " : "", problem.tokens, problem.hidden,
                     to_string(problem.input), problem.heads, problem.mlp, problem.eps);
}

std::string to_string(const ProjectProblem& problem) {
  return fmt::format(
      "project: token {} of {} in {} sequences, [{}] {}{} -> f32, eps {}", problem.token,
      problem.tokens, problem.sequences, problem.hidden, to_string(problem.input),
      problem.projected ? fmt::format(" x [{}, {}]^T", problem.out, problem.hidden) : "",
      problem.eps);
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
  if (problem.varlen() && !fits_images(problem)) {
    return {too_many_rows(problem)};
  }
  if (problem.input != DType::kU8 && problem.input != problem.output) {
    return {"patches are u8, or of the output's type"};
  }
  return valid_if(is_float(problem.output), "the output is not a float type");
}

Support valid(const LayerNormProblem& problem) {
  if (Support sizes = valid_sizes({problem.rows, problem.width}); !sizes) {
    return sizes;
  }
  if (!(problem.eps >= 0)) {
    return {"eps is negative"};
  }
  if (problem.row_scales && !takes_row_scales(problem.output)) {
    return {"only outputs of u8, i8 and e4m3 have a scale for each row"};
  }
  return valid_if(is_float(problem.input), "the input is not a float type");
}

Support valid(const LinearProblem& problem) {
  if (Support sizes = valid_sizes({problem.rows, problem.in, problem.out}); !sizes) {
    return sizes;
  }
  if (problem.row_scales && !takes_row_scales(problem.input)) {
    return {"only inputs of u8, i8 and e4m3 have a scale for each row"};
  }
  if (problem.norm && (!is_float(problem.input) || !(problem.eps >= 0))) {
    return {"the input cannot be normalised: it is not of a float type, or eps is negative"};
  }
  return valid_if(problem.epilogue != Epilogue::kResidual || is_float(problem.output),
                  "residuals are not added in a one-byte type");
}

Support valid(const AttentionProblem& problem) {
  if (Support sizes = valid_sizes({problem.batch, problem.heads, problem.key_heads(),
                                   problem.queries, problem.keys, problem.head_dim});
      !sizes) {
    return sizes;
  }
  if (problem.heads % problem.key_heads() != 0) {
    return {fmt::format("{} heads are no multiple of {} heads of keys", problem.heads,
                        problem.key_heads())};
  }
  if (!std::isfinite(problem.scale) || problem.scale <= 0) {
    return {fmt::format("the scale {} is not positive and finite", problem.scale)};
  }
  if ((problem.o.row == 0 && problem.queries > 1) || (problem.o.head == 0 && problem.heads > 1) ||
      (problem.o.batch == 0 && problem.batch > 1 && !problem.varlen)) {
    return {"results of stride 0 would overlap"};
  }
  return valid_if(is_float(problem.type), "the operands are not of a float type");
}

Support valid(const PoolProblem& problem) {
  if (Support sizes =
          valid_sizes({problem.images, problem.tokens, problem.heads, problem.hidden, problem.mlp});
      !sizes) {
    return sizes;
  }
  if (problem.varlen && !fits_images(problem)) {
    return {too_many_rows(problem)};
  }
  if (problem.hidden % problem.heads != 0) {
    return {"the heads do not divide the hidden size"};
  }
  if (!(problem.eps >= 0)) {
    return {"eps is negative"};
  }
  return valid_if(is_float(problem.input), "the input is not a float type");
}

Support valid(const ProjectProblem& problem) {
  if (Support sizes = valid_sizes({problem.sequences, problem.tokens, problem.hidden, problem.out});
      !sizes) {
    return sizes;
  }
  if (Support rows = valid_sizes({problem.rows()}); !rows) {
    return rows;
  }
  if (problem.token < 0 || problem.token >= problem.tokens) {
    return {fmt::format("there is no token {} in sequences of {}", problem.token, problem.tokens)};
  }
  if (!problem.projected && problem.out != problem.hidden) {
    return {fmt::format("without a projection {} numbers do not become {}", problem.hidden,
                        problem.out)};
  }
  if (!(problem.eps >= 0)) {
    return {"eps is negative"};
  }
  return valid_if(is_float(problem.input), "the input is not a float type");
}

AttentionProblem packed_attention(std::int64_t images, std::int64_t tokens, std::int64_t heads,
                                  std::int64_t head_dim, double scale, DType type) {
  const std::int64_t width = heads * head_dim;
  const AttentionStrides packed{.batch = tokens * 3 * width, .row = 3 * width, .head = head_dim};
  return {.batch = images,
          .heads = heads,
          .queries = tokens,
          .keys = tokens,
          .head_dim = head_dim,
          .scale = scale,
          .type = type,
          .q = packed,
          .k = packed,
          .v = packed,
          .o = {.batch = tokens * width, .row = width, .head = head_dim}};
}

AttentionOperands packed_operands(const AttentionProblem& problem, Address qkv, Address output) {
  const Address width = static_cast<Address>(problem.hidden()) * size_of(problem.type);
  return {.q = qkv, .k = qkv + width, .v = qkv + 2 * width, .o = output};
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

void check_weights(const ProjectWeights& weights) {
  check_weights(weights.norm);
  if (!weights.linear.weight.empty()) {
    check_weights(weights.linear);
    check_length("the norm before a projection", weights.norm.weight.size(), weights.linear.in);
  }
}

}  // namespace fovea::ops
