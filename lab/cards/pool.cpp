// The card of the pooling head, which computes embeddings from tokens in a few kernel launches.
#include "gpu/launch/pool.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "lab/cards/operator_workload.hpp"
#include "lab/cards/registry.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::lab {
namespace {

using ops::reference::attention_scores;
using ops::reference::dot;
using ops::reference::gelu_tanh;
using ops::reference::normalise_row;
using ops::reference::row_moments;
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

constexpr double kScoreSpread = 1.5;  // a softmax that is neither flat nor one-hot

// Tokens whose mean and deviation differ from those of a normalised row, so that skipping the norm
// changes the result.
constexpr Draw kTokenDraw{0.6, 1.5};

/// Sets the inputs for the keys, packed as the kernel expects them.
void set_keys(std::vector<Tensor>& inputs, const Tensor& keys) {
  std::vector<float> values(static_cast<std::size_t>(keys.count()));
  keys.read(0, values);
  const gpu::PackedPoolKeys packed = gpu::pack_pool_keys(values, keys.columns());
  inputs[kKeys] = Tensor::raw("keys", std::as_bytes(std::span(packed.keys)));
  inputs[kKeySums] = Tensor::raw("key sums", std::as_bytes(std::span(packed.sums)));
}

/// Rounds a value to bf16, as a framework does that stores every tensor in bf16.
template <typename Number>
Number bf16(Number value) {
  return stored(DType::kBF16, value);
}

/// Computes weight (out, in) times x, plus bias, for `count` rows from `first` on.
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

class PoolWorkload final : public OperatorWorkload<PoolWorkload, ops::PoolProblem> {
 public:
  PoolWorkload(const ops::PoolProblem& problem, std::uint64_t seed) : OperatorWorkload(problem) {
    forget();
    std::uint64_t salt = seed * 17;
    const std::int64_t hidden = problem.hidden;
    const auto width = [](std::int64_t depth) {
      return 1.0 / std::sqrt(static_cast<double>(depth));
    };
    const auto draw = [&](const char* name, DType type, std::int64_t rows, std::int64_t columns,
                          Draw values) {
      inputs_.push_back(Tensor::random(name, type, rows, columns, values, salt++));
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

  [[nodiscard]] OutputSpec output() const override {
    return {.type = DType::kF32,
            .rows = problem_.images,
            .columns = problem_.hidden,
            .rounded_to = DType::kBF16};
  }
  [[nodiscard]] std::size_t scratch_bytes() const override {
    return gpu::pool_workspace_bytes(problem_);
  }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& /*plan*/) const override {
    const auto layer = [&](Input weight) {
      return gpu::PoolLinear{.weight = operands.inputs[weight],
                             .bias = operands.inputs[weight + 1]};
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
  void reference(const Tile& tile, std::span<double> values) const override {
    fill(tile, values, known_->exact);
  }
  void framework(const Tile& tile, std::span<double> values) const override {
    fill(tile, values, known_->rounded);
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override {
    const auto defective = [this](Defect defect) {
      return changed([=](PoolWorkload& copy) {
        copy.forget();
        copy.defect_ = defect;
      });
    };
    const auto other_keys = [this](PoolWorkload& copy) {
      copy.forget();
      copy.keys_ = keys_.rows_moved(1);
      set_keys(copy.inputs_, copy.keys_);
    };
    const auto without_bias = [](PoolWorkload& copy) {
      copy.forget();
      copy.inputs_[kNormBias] = copy.inputs_[kNormBias].filled(0.0);
    };
    return {{"skip the tokens' norm", defective(Defect::kSkipInputNorm), false},
            {"drop the last token", defective(Defect::kDropLastToken), false},
            {"drop GELU", defective(Defect::kDropGelu), false},
            {"skip the residual", defective(Defect::kSkipResidual), false},
            {"keys of the neighbouring head", changed(other_keys)},
            {"skip the norm's bias", changed(without_bias)}};
  }
  [[nodiscard]] TorchTask torch_task() const override {
    TorchTask task;
    const std::int64_t hidden = problem_.hidden;
    task.input(inputs_[kX], {problem_.images, problem_.tokens, hidden});
    task.weight(keys_, DType::kBF16);
    for (std::size_t input = kNormWeight; input < inputs_.size(); ++input) {
      task.weight(inputs_[input], DType::kBF16);
    }
    // Each head's part of the value layer is applied to the mean of the tokens, weighted with that
    // head's probabilities.
    task.forward = fmt::format(
        "x = F.layer_norm(x, ({0},), eps={1})\n"
        "mean = torch.softmax(x @ self.keys.t(), 1).transpose(1, 2) @ x\n"
        "by_head = self.value_weight.view({2}, {3}, {0})\n"
        "value = torch.einsum(\"bhc,hdc->bhd\", mean, by_head).reshape({4}, {0})\n"
        "y = F.linear(value + self.value_bias, self.out_weight, self.out_bias)\n"
        "inner = F.layer_norm(y, ({0},), self.norm_weight, self.norm_bias, {1})\n"
        "inner = F.gelu(F.linear(inner, self.fc1_weight, self.fc1_bias), approximate=\"tanh\")\n"
        "return (y + F.linear(inner, self.fc2_weight, self.fc2_bias)).float()",
        hidden, problem_.eps, problem_.heads, problem_.head_dim(), problem_.images);
    return task;
  }
  [[nodiscard]] double flops() const override {
    const auto images = static_cast<double>(problem_.images);
    const auto hidden = static_cast<double>(problem_.hidden);
    return images * (4.0 * static_cast<double>(problem_.heads * problem_.tokens) * hidden +
                     4.0 * hidden * hidden + 4.0 * hidden * static_cast<double>(problem_.mlp));
  }

 private:
  enum class Defect : std::uint8_t {
    kNone,
    kSkipInputNorm,
    kDropLastToken,
    kDropGelu,
    kSkipResidual
  };

  template <typename Number>
  struct Known {
    std::once_flag computed;
    std::vector<Number> embedding;
  };
  /// Cache of the embeddings computed for each image.
  struct KnownImages {
    std::vector<Known<double>> exact;
    std::vector<Known<float>> rounded;
  };
  /// Clears the cache of a copy that computes something different.
  void forget() {
    const auto images = static_cast<std::size_t>(problem_.images);
    known_ = std::make_shared<KnownImages>(std::vector<Known<double>>(images),
                                           std::vector<Known<float>>(images));
  }

  /// Computes one image's embedding, in float64 or in f32 with bf16 rounding where a framework
  /// stores tensors.
  template <typename Number>
  [[nodiscard]] std::vector<Number> embedding(std::int64_t image) const {
    const auto hidden = static_cast<std::size_t>(problem_.hidden);
    const auto tokens =
        static_cast<std::size_t>(problem_.tokens - (defect_ == Defect::kDropLastToken ? 1 : 0));
    const auto store = [](std::vector<Number>& values) {
      std::ranges::transform(values, values.begin(), bf16<Number>);
    };
    std::vector<float> drawn(tokens * hidden);
    inputs_[kX].read(image * problem_.tokens * problem_.hidden, drawn);
    std::vector<Number> x(drawn.begin(), drawn.end());
    const std::vector<Number> ones(hidden, 1);
    const std::vector<Number> zeros(hidden);
    for (std::size_t token = 0; token < tokens && defect_ != Defect::kSkipInputNorm; ++token) {
      const auto row = std::span(x).subspan(token * hidden, hidden);
      const std::span<const Number> from = row;
      normalise_row<Number>(from, row_moments<Number>(from), problem_.eps, std::span(ones),
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
      std::vector<Number> scores =
          attention_scores<Number>(std::span<const Number>(key), rows, 1.0);
      weigh_rows<Number>(scores, rows, mean, bf16<Number>);
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
    normalise_row<Number>(row, row_moments<Number>(row), problem_.eps,
                          std::span<const float>(norm_weight), std::span<const float>(norm_bias),
                          normed);
    store(normed);
    std::vector<Number> inner = layer(kFc1Weight, normed);
    for (Number& element : inner) {
      const auto bent = static_cast<Number>(gelu_tanh(static_cast<double>(bf16<Number>(element))));
      element = bf16<Number>(defect_ == Defect::kDropGelu ? element : bent);
    }
    std::vector<Number> result = layer(kFc2Weight, inner);
    store(result);
    for (std::size_t i = 0; i < hidden; ++i) {
      const Number kept = defect_ == Defect::kSkipResidual ? Number{0} : attended[i];
      result[i] = bf16<Number>(result[i] + kept);
    }
    return result;
  }

  /// Computes a tile of embeddings; each image is computed once, however many tiles need it.
  template <typename Number>
  void fill(const Tile& tile, std::span<double> values, std::vector<Known<Number>>& known) const {
    // Neighbouring tiles are computed in parallel and need the same images, so each starts with a
    // different image.
    const std::int64_t shift = tile.column * tile.rows / problem_.hidden;
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const std::int64_t row = (i + shift) % tile.rows;
      Known<Number>& image = known[static_cast<std::size_t>(tile.row + row)];
      std::call_once(image.computed, [&] { image.embedding = embedding<Number>(tile.row + row); });
      std::copy_n(image.embedding.begin() + tile.column, tile.columns,
                  values.begin() + row * tile.columns);
    }
  }

  Tensor keys_;  // (heads, hidden); inputs_ holds them packed as the kernel expects
  Defect defect_ = Defect::kNone;
  std::shared_ptr<KnownImages> known_;
};

}  // namespace

std::vector<Card> pool_cards() {
  struct Size {
    std::int64_t images, tokens, heads, hidden, mlp;
  };
  const auto pool_case = [](const Size& size) {
    return case_of<PoolWorkload>(
        fmt::format("b{}_n{}_width{}", size.images, size.tokens, size.hidden),
        ops::PoolProblem{.images = size.images,
                         .tokens = size.tokens,
                         .heads = size.heads,
                         .hidden = size.hidden,
                         .mlp = size.mlp,
                         .input = DType::kBF16});
  };
  Card card{.name = "pool",
            .operation = "the pooling head: layer norm, attention of the folded probe, then an MLP",
            .first_arch = 80};
  // Sizes of base, so400m and giant; one image, a few, and more than the kernels for few rows
  // support.
  for (const Size& size :
       {Size{1, 196, 12, 768, 3072}, Size{3, 256, 16, 1152, 4304}, Size{5, 64, 16, 1536, 6144},
        Size{33, 49, 4, 256, 1024}, Size{290, 17, 4, 64, 128}, Size{270, 33, 6, 144, 208},
        Size{2, 20, 16, 1536, 128}}) {
    card.cases.push_back(pool_case(size).used(
        {.mutants = size.images == 33, .small = size.hidden <= 768 || size.mlp <= 128}));
  }
  for (const std::int64_t images : {std::int64_t{1}, std::int64_t{1024}}) {
    Case timed =
        pool_case({images, 196, 12, 768, 3072})
            .used({.check = images > 1, .bench = true});  // the case of one image is checked above
    if (images == 1) {
      timed.name += "_alone";
    }
    card.cases.push_back(std::move(timed));
  }
  card.emulated = {"images=5,tokens=200,heads=2,hidden=64,mlp=128"};
  card.problem = [pool_case](ProblemFields& fields) {
    Size size{1024, 196, 12, 768, 3072};
    fields.take("images", size.images, {.max = 65536});
    fields.take("tokens", size.tokens, {.max = 65536});
    fields.take("heads", size.heads, {.max = 128});
    fields.take("hidden", size.hidden, {.min = 16, .max = 4096, .step = 16});
    fields.take("mlp", size.mlp, {.min = 16, .max = 16384, .step = 16});
    if (size.hidden % size.heads != 0) {
      fail("the problem's {} columns are not a multiple of its {} heads", size.hidden, size.heads);
    }
    require_size("tokens", size.images * size.tokens, size.hidden);
    // Dropping the last of more tokens could not be detected.
    return pool_case(size).used({.mutants = size.images >= 16 && size.tokens <= 64});
  };
  // The launches read the tokens twice: for the scores, and for the weighted mean.
  card.gates = {{.case_name = card.cases.back().name, .reads = 2}};
  // Five intermediate tensors are stored in bf16.
  card.tolerance = {.difference = 5e-5, .tile_difference = 5e-5};
  card.kernels = {{.kernel = "pool_scores_*", .sass_has = {"HMMA", "LDG.E.128", "MUFU.RSQ"}},
                  {.kernel = "pool_mean", .sass_has = {"HMMA", "LDGSTS", "MUFU.EX2"}},
                  {.kernel = "pool_linear_*", .sass_has = {"HMMA"}}};
  return {card};
}

}  // namespace fovea::lab
