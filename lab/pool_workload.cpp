// The pooling head's inputs, exact result, same-precision result and mutants.
#include "lab/pool_workload.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "ops/reference/rows.hpp"

namespace fovea::lab {
namespace {

using ops::reference::dot;
using ops::reference::gelu_tanh;
using ops::reference::moments_of;
using ops::reference::normalise_row;
using ops::reference::scores_of;
using ops::reference::weigh_rows;

enum Input : std::size_t {
  kX,
  kKeys,
  kKeySums,
  kNormWeight,
  kNormBias,
  kValueWeight,
  kValueBias,
  kOutWeight,
  kOutBias,
  kFc1Weight,
  kFc1Bias,
  kFc2Weight,
  kFc2Bias,
};

constexpr double kScoreSpread = 1.5;  // neither flat nor a choice of one token

// Tokens whose norm does something: their mean and their spread are not those of a normalised row.
constexpr Draw kTokenDraw{0.6, 1.5};

/// Puts the keys, as the kernel takes them, among the inputs.
void set_keys(std::vector<Tensor>& inputs, const Tensor& keys) {
  std::vector<float> values(static_cast<std::size_t>(keys.count()));
  keys.read(0, values);
  const gpu::PackedPoolKeys packed = gpu::pack_pool_keys(values, keys.columns());
  inputs[kKeys] = Tensor::raw("keys", std::as_bytes(std::span(packed.keys)));
  inputs[kKeySums] = Tensor::raw("key sums", std::as_bytes(std::span(packed.sums)));
}

/// bf16, as a framework stores every tensor; float64 stays as it is.
template <typename Number>
Number stored(Number value) {
  if constexpr (std::is_same_v<Number, double>) {
    return value;
  } else {
    return rounded(DType::kBF16, double{value});
  }
}

/// Weight (out, in) times x, plus bias, of `count` rows from `first` on.
template <typename Number>
std::vector<Number> linear(const Tensor& weight, const Tensor& bias, std::int64_t first,
                           std::int64_t count, const std::vector<Number>& x) {
  std::vector<float> w(x.size());
  std::vector<Number> y(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::int64_t row = first + static_cast<std::int64_t>(i);
    weight.read(row * weight.columns(), w);
    y[i] = dot<Number>(std::span<const float>(w), std::span<const Number>(x)) +
           static_cast<Number>(bias.at(0, row));
  }
  return y;
}

}  // namespace

PoolWorkload::PoolWorkload(const ops::PoolProblem& problem, std::uint64_t seed)
    : PoolWorkload(problem, {}, {}, Defect::kNone) {
  std::uint64_t salt = seed * 17;
  const std::int64_t hidden = problem.hidden;
  const auto width = [](std::int64_t depth) { return 1.0 / std::sqrt(static_cast<double>(depth)); };
  const auto draw = [&](const char* name, DType type, std::int64_t rows, std::int64_t columns,
                        Draw of) {
    inputs_.push_back(Tensor::random(name, type, rows, columns, of, salt++));
  };
  const auto layer = [&](const char* name, std::int64_t out, std::int64_t in) {
    draw((std::string(name) + " weight").c_str(), DType::kBF16, out, in, {0.0, 1.5 * width(in)});
    draw((std::string(name) + " bias").c_str(), DType::kF32, 1, out, {0.1, 0.5});
  };
  draw("x", DType::kBF16, problem.images * problem.tokens, hidden, kTokenDraw);
  keys_ = Tensor::random("keys", DType::kBF16, problem.heads, hidden,
                         {0.0, kScoreSpread * width(hidden)}, salt++);
  inputs_.resize(kNormWeight);
  set_keys(inputs_, keys_);
  draw("norm weight", DType::kF32, 1, hidden, {0.9, 0.4});
  draw("norm bias", DType::kF32, 1, hidden, {0.1, 0.4});
  layer("value", hidden, hidden);
  layer("out", hidden, hidden);
  layer("fc1", problem.mlp, hidden);
  layer("fc2", hidden, problem.mlp);
}

PoolWorkload::PoolWorkload(const ops::PoolProblem& problem, std::vector<Tensor> inputs, Tensor keys,
                           Defect defect)
    : OperatorWorkload(problem, std::move(inputs)),
      keys_(std::move(keys)),
      defect_(defect),
      exact_(static_cast<std::size_t>(problem.images)),
      rounded_(static_cast<std::size_t>(problem.images)) {}

OutputSpec PoolWorkload::output() const {
  OutputSpec spec;
  spec.type = DType::kF32;
  spec.rows = problem_.images;
  spec.columns = problem_.hidden;
  spec.rounded_to = DType::kBF16;
  return spec;
}

std::size_t PoolWorkload::scratch_bytes(const gpu::DeviceInfo& /*device*/) const {
  return gpu::pool_workspace_bytes(problem_);
}

std::vector<gpu::Launch> PoolWorkload::launches(gpu::Device& device, const Operands& operands,
                                                std::string_view) const {
  const auto layer = [&](Input weight) {
    return gpu::PoolLinear{.weight = operands.inputs[weight], .bias = operands.inputs[weight + 1]};
  };
  return gpu::pool_launches(device, problem_,
                            {.x = operands.inputs[kX],
                             .output = operands.output,
                             .workspace = operands.scratch,
                             .keys = operands.inputs[kKeys],
                             .key_sums = operands.inputs[kKeySums],
                             .norm_weight = operands.inputs[kNormWeight],
                             .norm_bias = operands.inputs[kNormBias],
                             .value = layer(kValueWeight),
                             .out = layer(kOutWeight),
                             .fc1 = layer(kFc1Weight),
                             .fc2 = layer(kFc2Weight)});
}

template <typename Number>
std::vector<Number> PoolWorkload::embedding(std::int64_t image) const {
  const auto hidden = static_cast<std::size_t>(problem_.hidden);
  const auto tokens =
      static_cast<std::size_t>(problem_.tokens - (defect_ == Defect::kDropLastToken ? 1 : 0));
  const auto store = [](std::vector<Number>& values) {
    std::ranges::transform(values, values.begin(), stored<Number>);
  };
  std::vector<float> drawn(tokens * hidden);
  inputs_[kX].read(image * problem_.tokens * problem_.hidden, drawn);
  std::vector<Number> x(drawn.begin(), drawn.end());
  const std::vector<Number> ones(hidden, 1);
  const std::vector<Number> zeros(hidden);
  for (std::size_t token = 0; token < tokens && defect_ != Defect::kSkipInputNorm; ++token) {
    const auto row = std::span(x).subspan(token * hidden, hidden);
    const std::span<const Number> from = row;
    normalise_row<Number>(from, moments_of<Number>(from), problem_.eps, std::span(ones),
                          std::span(zeros), row);
  }
  store(x);
  const std::span<const Number> rows = x;
  const std::int64_t head_dim = problem_.hidden / problem_.heads;
  std::vector<Number> value;
  std::vector<Number> mean(hidden);
  for (std::int64_t head = 0; head < problem_.heads; ++head) {
    const std::vector<float> drawn_key = keys_.row(head);
    const std::vector<Number> key(drawn_key.begin(), drawn_key.end());
    std::vector<Number> scores = scores_of<Number>(std::span<const Number>(key), rows, 1.0);
    weigh_rows<Number>(scores, rows, mean, stored<Number>);
    store(mean);
    const std::vector<Number> part =
        linear(inputs_[kValueWeight], inputs_[kValueBias], head * head_dim, head_dim, mean);
    value.insert(value.end(), part.begin(), part.end());
  }
  store(value);
  const auto layer = [&](Input weight, const std::vector<Number>& from) {
    return linear(inputs_[weight], inputs_[weight + 1], 0, inputs_[weight].rows(), from);
  };
  std::vector<Number> attended = layer(kOutWeight, value);
  store(attended);
  const std::span<const Number> row = attended;
  const std::vector<float> norm_weight = inputs_[kNormWeight].row(0);
  const std::vector<float> norm_bias = inputs_[kNormBias].row(0);
  std::vector<Number> normed(hidden);
  normalise_row<Number>(row, moments_of<Number>(row), problem_.eps,
                        std::span<const float>(norm_weight), std::span<const float>(norm_bias),
                        normed);
  store(normed);
  std::vector<Number> inner = layer(kFc1Weight, normed);
  for (Number& one : inner) {
    const auto bent = static_cast<Number>(gelu_tanh(static_cast<double>(stored<Number>(one))));
    one = stored<Number>(defect_ == Defect::kDropGelu ? one : bent);
  }
  std::vector<Number> result = layer(kFc2Weight, inner);
  store(result);
  for (std::size_t i = 0; i < hidden; ++i) {
    const Number kept = defect_ == Defect::kSkipResidual ? Number{0} : attended[i];
    result[i] = stored<Number>(result[i] + kept);
  }
  return result;
}

template <typename Number>
void PoolWorkload::fill(const Tile& tile, std::span<double> values,
                        std::vector<Known<Number>>& known) const {
  // The tiles beside this one need the same images: each begins with others of them.
  const std::int64_t shift = tile.column * tile.rows / problem_.hidden;
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const std::int64_t row = (i + shift) % tile.rows;
    Known<Number>& one = known[static_cast<std::size_t>(tile.row + row)];
    std::call_once(one.computed, [&] { one.embedding = embedding<Number>(tile.row + row); });
    std::copy_n(one.embedding.begin() + tile.column, tile.columns,
                values.begin() + row * tile.columns);
  }
}

void PoolWorkload::reference(const Tile& tile, std::span<double> values) const {
  fill(tile, values, exact_);
}

void PoolWorkload::framework(const Tile& tile, std::span<double> values) const {
  fill(tile, values, rounded_);
}

std::vector<Mutant> PoolWorkload::mutants() const {
  std::vector<Mutant> all;
  const auto add = [&](const char* name, std::vector<Tensor> inputs, const Tensor& keys,
                       Defect defect) {
    all.push_back({name,
                   std::shared_ptr<const Workload>(
                       new PoolWorkload(problem_, std::move(inputs), keys, defect)),
                   defect == Defect::kNone});
  };
  add("skip the tokens' norm", inputs_, keys_, Defect::kSkipInputNorm);
  add("drop the last token", inputs_, keys_, Defect::kDropLastToken);
  add("drop GELU", inputs_, keys_, Defect::kDropGelu);
  add("skip the residual", inputs_, keys_, Defect::kSkipResidual);
  const Tensor moved = keys_.rows_moved(1);
  std::vector<Tensor> other_keys = inputs_;
  set_keys(other_keys, moved);
  add("keys of the neighbouring head", std::move(other_keys), moved, Defect::kNone);
  std::vector<Tensor> without = inputs_;
  without[kNormBias] = Tensor::uniform("norm bias", DType::kF32, 1, problem_.hidden, 0.0);
  add("skip the norm's bias", std::move(without), keys_, Defect::kNone);
  return all;
}

double PoolWorkload::flops() const {
  const auto images = static_cast<double>(problem_.images);
  const auto hidden = static_cast<double>(problem_.hidden);
  return images * (4.0 * static_cast<double>(problem_.heads * problem_.tokens) * hidden +
                   4.0 * hidden * hidden + 4.0 * hidden * static_cast<double>(problem_.mlp));
}

}  // namespace fovea::lab
