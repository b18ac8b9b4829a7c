// Attention's inputs, exact result, same-precision result and mutants.
#include "lab/attention_workload.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/error.hpp"

namespace fovea::lab {
namespace {

constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kValue = 2;
constexpr int kOperands = 3;

/// Keys of a block, in the mistakes that blocks make possible.
constexpr std::int64_t kBlock = 64;
/// Keys are padded to whole steps of a matrix instruction.
constexpr std::int64_t kStep = 16;

/// Of q, k and v: with the scale 1 / sqrt(head_dim) scores are then about 2 wide, so that the
/// softmax is neither flat nor one-hot, and the values have a mean that a wrong sum of weights
/// would move.
constexpr Draw kDraw{0.2, 1.4};

gpu::AttentionProblem with_strides(gpu::AttentionProblem problem, AttentionLayout layout) {
  if (layout == AttentionLayout::kPacked) {
    const gpu::AttentionProblem packed =
        gpu::packed_attention(problem.batch, problem.queries, problem.heads, problem.head_dim,
                              problem.scale, problem.type, problem.output);
    problem.q = packed.q;
    problem.k = packed.k;
    problem.v = packed.v;
    problem.o = packed.o;
    return problem;
  }
  const auto strides = [&](std::int64_t length) {
    return gpu::AttentionStrides{.batch = problem.heads * length * problem.head_dim,
                                 .row = problem.head_dim,
                                 .head = length * problem.head_dim};
  };
  problem.q = strides(problem.queries);
  problem.k = strides(problem.keys);
  problem.v = problem.k;
  problem.o = problem.q;
  return problem;
}

}  // namespace

AttentionWorkload::AttentionWorkload(const gpu::AttentionProblem& problem, AttentionLayout layout,
                                     std::uint64_t seed)
    : problem_(with_strides(problem, layout)), layout_(layout) {
  if (layout == AttentionLayout::kPacked) {
    inputs_.push_back(Tensor::random("qkv", problem.type, problem.batch * problem.queries,
                                     kOperands * problem.heads * problem.head_dim, kDraw, seed));
    return;
  }
  for (const int which : {kQuery, kKey, kValue}) {
    const std::int64_t length = which == kQuery ? problem.queries : problem.keys;
    inputs_.push_back(Tensor::random(std::string(1, "qkv"[which]), problem.type,
                                     problem.batch * problem.heads * length, problem.head_dim,
                                     kDraw, seed * kOperands + static_cast<std::uint64_t>(which)));
  }
}

std::string AttentionWorkload::describe() const {
  return gpu::to_string(problem_) + (layout_ == AttentionLayout::kPacked ? ", packed" : "");
}

OutputSpec AttentionWorkload::output() const {
  OutputSpec spec;
  spec.type = problem_.output;
  if (layout_ == AttentionLayout::kPacked) {
    spec.rows = problem_.batch * problem_.queries;
    spec.columns = problem_.heads * problem_.head_dim;
  } else {
    spec.rows = problem_.batch * problem_.heads * problem_.queries;
    spec.columns = problem_.head_dim;
  }
  return spec;
}

std::string AttentionWorkload::can_run(const gpu::DeviceInfo& device) const {
  return gpu::can_run(problem_, device);
}

std::vector<std::string> AttentionWorkload::plans(const gpu::DeviceInfo& device) const {
  std::vector<std::string> names;
  for (const gpu::AttentionPlan& plan : gpu::attention_plans(problem_, device)) {
    names.push_back(gpu::to_string(plan));
  }
  return names;
}

std::vector<gpu::Launch> AttentionWorkload::launches(gpu::Device& device, const Operands& operands,
                                                     std::string_view name) const {
  const gpu::AttentionOperands ours = attention_operands(operands);
  if (name.empty()) {
    return {gpu::attention_launch(device, problem_, ours)};
  }
  for (const gpu::AttentionPlan& plan : gpu::attention_plans(problem_, device.info())) {
    if (gpu::to_string(plan) == name) {
      return {gpu::attention_launch(device, problem_, ours, plan)};
    }
  }
  fail("{} has no plan '{}'", describe(), name);
}

AttentionWorkload::Operand AttentionWorkload::operand(int which) const {
  Operand at;
  at.strides = which == kQuery ? problem_.q : which == kKey ? problem_.k : problem_.v;
  if (layout_ == AttentionLayout::kPacked) {
    at.offset = which * problem_.heads * problem_.head_dim;
  } else {
    at.input = static_cast<std::size_t>(which);
  }
  return at;
}

gpu::AttentionOperands AttentionWorkload::attention_operands(const Operands& operands) const {
  const auto address = [&](int which) {
    const Operand at = operand(which);
    return operands.inputs[at.input] +
           static_cast<gpu::DevicePtr>(at.offset) * size_of(problem_.type);
  };
  return {.q = address(kQuery), .k = address(kKey), .v = address(kValue), .o = operands.output};
}

std::vector<float> AttentionWorkload::rows_of(int which, std::int64_t image, std::int64_t head,
                                              std::int64_t first, std::int64_t count) const {
  const Operand at = operand(which);
  const auto width = static_cast<std::size_t>(problem_.head_dim);
  std::vector<float> rows(static_cast<std::size_t>(count) * width);
  for (std::int64_t row = 0; row < count; ++row) {
    inputs_[at.input].read(at.offset + image * at.strides.batch + head * at.strides.head +
                               (first + row) * at.strides.row,
                           std::span(rows).subspan(static_cast<std::size_t>(row) * width, width));
  }
  return rows;
}

template <typename Number>
void AttentionWorkload::attend(std::int64_t row, std::span<const float> query,
                               std::span<const float> keys, std::span<const float> values,
                               std::span<Number> output) const {
  const std::size_t width = query.size();
  std::int64_t seen = problem_.keys;
  if (problem_.causal) {
    const std::int64_t extra = mistake_ == Mistake::kCausalOff ? 1 : 0;
    seen = std::min(seen, row + 1 + problem_.keys - problem_.queries + extra);
  }
  const auto scale = static_cast<Number>(mistake_ == Mistake::kSkipScale ? 1.0 : problem_.scale);
  std::vector<Number> scores(static_cast<std::size_t>(seen));
  for (std::size_t key = 0; key < scores.size(); ++key) {
    Number sum = 0;
    for (std::size_t i = 0; i < width; ++i) {
      sum += static_cast<Number>(query[i]) * static_cast<Number>(keys[key * width + i]);
    }
    scores[key] = sum * scale;
  }
  const auto first_block = scores.begin() + std::min(kBlock, seen);
  const Number first_max = *std::max_element(scores.begin(), first_block);
  Number max = *std::max_element(scores.begin(), scores.end());
  Number sum = 0;
  if (mistake_ == Mistake::kCountTail) {
    max = std::max(max, Number{0});
    const std::int64_t tail = (kStep - seen % kStep) % kStep;
    sum = static_cast<Number>(tail) * std::exp(-max);
  }
  std::ranges::fill(output, Number{0});
  for (std::size_t key = 0; key < scores.size(); ++key) {
    const bool early = static_cast<std::int64_t>(key) < kBlock;
    const bool stale = mistake_ == Mistake::kSkipRescale && early;
    Number weight = std::exp(scores[key] - (stale ? first_max : max));
    sum += weight;
    if constexpr (std::is_same_v<Number, float>) {
      weight = rounded(problem_.type, double{weight});
    }
    for (std::size_t i = 0; i < width; ++i) {
      output[i] += weight * static_cast<Number>(values[key * width + i]);
    }
  }
  for (Number& value : output) {
    value /= sum;
  }
}

template <typename Number, typename Write>
void AttentionWorkload::compute(const Tile& tile, Write write) const {
  const bool packed = layout_ == AttentionLayout::kPacked;
  const std::int64_t width = problem_.head_dim;
  std::vector<Number> output(static_cast<std::size_t>(width));
  // Of the head at hand.
  std::int64_t loaded = -1;
  std::vector<float> keys;
  std::vector<float> values;
  const std::int64_t end = tile.column + tile.columns;
  for (std::int64_t column = tile.column; column < end;) {
    const std::int64_t next = std::min(end, (column / width + 1) * width);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const std::int64_t row = (tile.row + r) % problem_.queries;
      const std::int64_t block = (tile.row + r) / problem_.queries;
      const std::int64_t image = packed ? block : block / problem_.heads;
      const std::int64_t head = packed ? column / width : block % problem_.heads;
      if (const std::int64_t both = image * problem_.heads + head; both != loaded) {
        loaded = both;
        keys = rows_of(kKey, image, head, 0, problem_.keys);
        values = rows_of(kValue, image, head, 0, problem_.keys);
      }
      attend<Number>(row, rows_of(kQuery, image, head, row, 1), keys, values, output);
      for (std::int64_t c = column; c < next; ++c) {
        write(static_cast<std::size_t>(r * tile.columns + c - tile.column),
              output[static_cast<std::size_t>(c % width)]);
      }
    }
    column = next;
  }
}

void AttentionWorkload::reference(const Tile& tile, std::span<double> values) const {
  compute<double>(tile, [&](std::size_t at, double value) { values[at] = value; });
}

void AttentionWorkload::framework(const Tile& tile, std::span<double> values) const {
  compute<float>(tile, [&](std::size_t at, float value) {
    // A framework quantises the tensor that its attention has stored.
    const float stored = rounded(problem_.type, double{value});
    values[at] = double{rounded(problem_.output, double{stored})};
  });
}

std::vector<Mutant> AttentionWorkload::mutants() const {
  std::vector<Mutant> all;
  const auto with = [&](std::string name, std::size_t which, Tensor tensor) {
    std::vector<Tensor> inputs = inputs_;
    inputs[which] = std::move(tensor);
    all.push_back({std::move(name),
                   std::shared_ptr<const Workload>(
                       new AttentionWorkload(*this, std::move(inputs), Mistake::kNone)),
                   true});
  };
  const auto mistaken = [&](std::string name, Mistake mistake) {
    all.push_back({std::move(name),
                   std::shared_ptr<const Workload>(new AttentionWorkload(*this, inputs_, mistake)),
                   false});
  };
  if (layout_ == AttentionLayout::kPacked) {
    const std::int64_t width = problem_.heads * problem_.head_dim;
    with("keys and values swapped", 0, inputs_[0].columns_swapped(width, 2 * width, width));
    if (problem_.heads > 1) {
      with("keys of the neighbouring head", 0,
           inputs_[0].columns_swapped(width, width + problem_.head_dim, problem_.head_dim));
    }
  } else {
    with("keys one off", kKey, inputs_[kKey].rows_moved(1));
    with("values one off", kValue, inputs_[kValue].rows_moved(1));
  }
  mistaken("skip the scale", Mistake::kSkipScale);
  if (problem_.keys > kBlock) {
    mistaken("skip one rescale", Mistake::kSkipRescale);
  }
  if (problem_.causal) {
    mistaken("causal mask one off", Mistake::kCausalOff);
  } else if (problem_.keys % kStep != 0 && problem_.output == problem_.type) {
    // Twelve zeros beside 196 keys weigh less than the rounding of e4m3.
    mistaken("keys' padding counted", Mistake::kCountTail);
  }
  return all;
}

double AttentionWorkload::flops() const {
  const auto queries = static_cast<double>(problem_.queries);
  const auto keys = static_cast<double>(problem_.keys);
  // Causal: query i of n sees i + 1 + keys - queries.
  const double pairs =
      problem_.causal ? queries * (keys - queries) + queries * (queries + 1) / 2 : queries * keys;
  constexpr double kProducts = 4.0;  // Q K^T and P V, a multiplication and an addition each
  return kProducts * pairs * static_cast<double>(problem_.head_dim) *
         static_cast<double>(problem_.batch * problem_.heads);
}

double AttentionWorkload::bytes() const {
  double sum = static_cast<double>(output().bytes());
  for (const Tensor& input : inputs_) {
    sum += static_cast<double>(input.bytes());
  }
  return sum;
}

}  // namespace fovea::lab
