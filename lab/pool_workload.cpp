// The pooling head's inputs, exact result, same-precision result and mutants.
#include "lab/pool_workload.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

namespace fovea::lab {
namespace {

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

/// x becomes (x - mean) / sqrt(variance + eps).
template <typename Number>
void normalise(std::span<Number> x, double eps) {
  const auto count = static_cast<Number>(x.size());
  Number mean = 0;
  for (const Number one : x) {
    mean += one / count;
  }
  Number variance = 0;
  for (const Number one : x) {
    variance += (one - mean) * (one - mean) / count;
  }
  const Number factor = 1 / std::sqrt(variance + static_cast<Number>(eps));
  for (Number& one : x) {
    one = (one - mean) * factor;
  }
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

template <typename Number>
Number gelu(Number x) {
  const auto value = static_cast<double>(x);
  constexpr double kSqrtTwoOverPi = 0.7978845608028654;
  return static_cast<Number>(
      0.5 * value * (1.0 + std::tanh(kSqrtTwoOverPi * (value + 0.044715 * value * value * value))));
}

/// Row `row` of weight (out, in) times x, plus bias.
template <typename Number>
Number linear(const Tensor& weight, const Tensor& bias, std::int64_t row,
              std::span<const Number> x) {
  std::vector<float> w(x.size());
  weight.read(row * weight.columns(), w);
  Number sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += static_cast<Number>(w[i]) * x[i];
  }
  return sum + static_cast<Number>(bias.at(0, row));
}

}  // namespace

PoolWorkload::PoolWorkload(const gpu::PoolProblem& problem, std::uint64_t seed)
    : problem_(problem) {
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

PoolWorkload::PoolWorkload(const gpu::PoolProblem& problem, std::vector<Tensor> inputs, Tensor keys,
                           Defect defect)
    : problem_(problem), inputs_(std::move(inputs)), keys_(std::move(keys)), defect_(defect) {}

OutputSpec PoolWorkload::output() const {
  OutputSpec spec;
  spec.type = DType::kF32;
  spec.rows = problem_.images;
  spec.columns = problem_.hidden;
  return spec;
}

std::string PoolWorkload::can_run(const gpu::DeviceInfo& device) const {
  return gpu::can_run(problem_, device);
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
  std::vector<float> drawn(tokens * hidden);
  inputs_[kX].read(image * problem_.tokens * problem_.hidden, drawn);
  std::vector<Number> x(drawn.begin(), drawn.end());
  for (std::size_t token = 0; token < tokens && defect_ != Defect::kSkipInputNorm; ++token) {
    const auto row = std::span(x).subspan(token * hidden, hidden);
    normalise<Number>(row, problem_.eps);
    std::ranges::transform(row, row.begin(), stored<Number>);
  }
  const std::int64_t head_dim = problem_.hidden / problem_.heads;
  std::vector<Number> value(hidden);
  std::vector<float> key(hidden);
  for (std::int64_t head = 0; head < problem_.heads; ++head) {
    keys_.read(head * problem_.hidden, key);
    std::vector<Number> weights(tokens);
    for (std::size_t token = 0; token < tokens; ++token) {
      for (std::size_t i = 0; i < hidden; ++i) {
        weights[token] += x[token * hidden + i] * static_cast<Number>(key[i]);
      }
    }
    const Number largest = *std::ranges::max_element(weights);
    Number sum = 0;
    for (Number& weight : weights) {
      weight = std::exp(weight - largest);
      sum += weight;
    }
    std::vector<Number> mean(hidden);
    for (std::size_t token = 0; token < tokens; ++token) {
      const Number weight = stored<Number>(weights[token] / sum);
      for (std::size_t i = 0; i < hidden; ++i) {
        mean[i] += weight * x[token * hidden + i];
      }
    }
    std::ranges::transform(mean, mean.begin(), stored<Number>);
    for (std::int64_t row = head * head_dim; row < (head + 1) * head_dim; ++row) {
      value[static_cast<std::size_t>(row)] =
          stored<Number>(linear<Number>(inputs_[kValueWeight], inputs_[kValueBias], row, mean));
    }
  }
  const auto layer = [&](Input weight, std::span<const Number> from) {
    std::vector<Number> to(static_cast<std::size_t>(inputs_[weight].rows()));
    for (std::size_t row = 0; row < to.size(); ++row) {
      to[row] = linear<Number>(inputs_[weight], inputs_[weight + 1], static_cast<std::int64_t>(row),
                               from);
    }
    return to;
  };
  std::vector<Number> attended = layer(kOutWeight, value);
  std::ranges::transform(attended, attended.begin(), stored<Number>);
  std::vector<Number> normed = attended;
  normalise<Number>(normed, problem_.eps);
  for (std::size_t i = 0; i < hidden; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    normed[i] = stored<Number>(normed[i] * static_cast<Number>(inputs_[kNormWeight].at(0, at)) +
                               static_cast<Number>(inputs_[kNormBias].at(0, at)));
  }
  std::vector<Number> inner = layer(kFc1Weight, normed);
  for (Number& one : inner) {
    one = stored<Number>(defect_ == Defect::kDropGelu ? one : gelu(stored<Number>(one)));
  }
  std::vector<Number> result = layer(kFc2Weight, inner);
  for (std::size_t i = 0; i < hidden; ++i) {
    const Number kept = defect_ == Defect::kSkipResidual ? Number{0} : attended[i];
    result[i] = stored<Number>(stored<Number>(result[i]) + kept);
  }
  return result;
}

template <typename Number>
void PoolWorkload::fill(const Tile& tile, std::span<double> values,
                        std::map<std::int64_t, std::vector<Number>>& known) const {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t image = tile.row + row;
    std::vector<Number> whole;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = known.find(image); found != known.end()) {
        whole = found->second;
      }
    }
    if (whole.empty()) {
      whole = embedding<Number>(image);
      const std::lock_guard lock(mutex_);
      known.emplace(image, whole);
    }
    for (std::int64_t column = 0; column < tile.columns; ++column) {
      values[static_cast<std::size_t>(row * tile.columns + column)] =
          double{whole[static_cast<std::size_t>(tile.column + column)]};
    }
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

double PoolWorkload::bytes() const {
  double sum = static_cast<double>(output().bytes());
  for (const Tensor& input : inputs_) {
    sum += static_cast<double>(input.bytes());
  }
  return sum;
}

}  // namespace fovea::lab
