// Attention's inputs, exact result, same-precision result and mutants.
#include "lab/cards/attention_workload.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::lab {
namespace {

constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kValue = 2;
constexpr int kOperands = 3;

/// Number of keys per block, for the mutants that concern blocks.
constexpr std::int64_t kBlock = 64;
/// Keys are padded to a multiple of the matrix instruction's depth.
constexpr std::int64_t kStep = 16;

ops::AttentionProblem complete_problem(ops::AttentionProblem problem,
                                       const AttentionInputs& config) {
  if (config.layout == AttentionLayout::kPacked) {
    const ops::AttentionProblem packed =
        ops::packed_attention(problem.batch, problem.queries, problem.heads, problem.head_dim,
                              problem.scale, problem.type);
    problem.q = packed.q;
    problem.k = packed.k;
    problem.v = packed.v;
    problem.o = packed.o;
    return problem;
  }
  const auto strides = [&](std::int64_t heads, std::int64_t length) {
    ops::AttentionStrides all{.batch = heads * length * problem.head_dim,
                              .row = problem.head_dim,
                              .head = length * problem.head_dim};
    if (config.layout == AttentionLayout::kVarlen) {
      all = {.batch = 0, .row = heads * problem.head_dim, .head = problem.head_dim};
    }
    return all;
  };
  if (config.layout == AttentionLayout::kVarlen) {
    problem.varlen = true;
    problem.batch = static_cast<std::int64_t>(config.query_lengths.size());
    problem.queries = std::ranges::max(config.query_lengths);
    problem.keys = std::ranges::max(config.key_lengths);
  }
  problem.q = strides(problem.heads, problem.queries);
  problem.k = strides(problem.key_heads(), problem.keys);
  problem.v = problem.k;
  problem.o = problem.q;
  return problem;
}

/// Returns the offset of each sequence, then the end of the last one (an exclusive prefix sum).
std::vector<std::int32_t> sequence_starts(std::span<const std::int64_t> lengths) {
  std::vector<std::int32_t> starts = {0};
  for (const std::int64_t length : lengths) {
    starts.push_back(starts.back() + static_cast<std::int32_t>(length));
  }
  return starts;
}

std::int64_t total_length(std::span<const std::int64_t> lengths) {
  return sequence_starts(lengths).back();
}

/// Returns a tensor whose rows are all equal.
Tensor repeated_row(const std::string& name, DType type, std::int64_t rows, std::int64_t columns,
                    Draw draw, std::uint64_t seed) {
  const Tensor row = Tensor::random(name, type, 1, columns, draw, seed);
  std::vector<double> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = row.at(0, static_cast<std::int64_t>(i) % columns);
  }
  return Tensor::from_values(name, type, rows, columns, values);
}

}  // namespace

AttentionWorkload::AttentionWorkload(const ops::AttentionProblem& problem, AttentionInputs config,
                                     std::uint64_t seed)
    : OperatorWorkload(complete_problem(problem, config)), config_(std::move(config)) {
  if (config_.layout == AttentionLayout::kPacked) {
    inputs_.push_back(Tensor::random("qkv", problem_.type, problem_.batch * problem_.queries,
                                     kOperands * problem_.heads * problem_.head_dim, config_.draw,
                                     seed));
    return;
  }
  const bool varlen = config_.layout == AttentionLayout::kVarlen;
  for (const int operand_index : {kQuery, kKey, kValue}) {
    const std::int64_t heads = operand_index == kQuery ? problem_.heads : problem_.key_heads();
    const std::int64_t length = operand_index == kQuery ? problem_.queries : problem_.keys;
    const std::int64_t rows =
        varlen ? total_length(operand_index == kQuery ? config_.query_lengths : config_.key_lengths)
               : problem_.batch * heads * length;
    const std::int64_t columns = varlen ? heads * problem_.head_dim : problem_.head_dim;
    const std::string name(1, "qkv"[operand_index]);
    const std::uint64_t own_seed = seed * kOperands + static_cast<std::uint64_t>(operand_index);
    inputs_.push_back(
        config_.equal_keys && operand_index == kKey
            ? repeated_row(name, problem_.type, rows, columns, config_.draw, own_seed)
            : Tensor::random(name, problem_.type, rows, columns, config_.draw, own_seed));
  }
  if (varlen) {
    for (const auto& [name, lengths] : {std::pair{"cu_seqlens_q", &config_.query_lengths},
                                        std::pair{"cu_seqlens_k", &config_.key_lengths}}) {
      const std::vector<std::int32_t> starts = sequence_starts(*lengths);
      inputs_.push_back(Tensor::raw(name, std::as_bytes(std::span(starts))));
    }
  }
}

std::string AttentionWorkload::describe() const {
  return to_string(problem_) + (config_.layout == AttentionLayout::kPacked ? ", packed" : "");
}

OutputSpec AttentionWorkload::output() const {
  OutputSpec spec;
  spec.type = problem_.type;
  if (heads_in_row()) {
    spec.rows =
        problem_.varlen ? total_length(config_.query_lengths) : problem_.batch * problem_.queries;
    spec.columns = problem_.heads * problem_.head_dim;
  } else {
    spec.rows = problem_.batch * problem_.heads * problem_.queries;
    spec.columns = problem_.head_dim;
  }
  return spec;
}

std::vector<Plan> AttentionWorkload::plans(const gpu::DeviceInfo& device) const {
  std::vector<Plan> all = {Plan{}};
  std::ranges::copy(gpu::attention_plans(problem_, device), std::back_inserter(all));
  return all;
}

Plan AttentionWorkload::plan_of_level(const gpu::DeviceInfo& device, std::string_view level) const {
  const std::optional<gpu::AttentionLevel> parsed_level = gpu::parse_attention_level(level);
  if (!parsed_level.has_value()) {
    fail("attention has no level '{}'; there are: {}", level,
         fmt::join(gpu::attention_level_names(), ", "));
  }
  return gpu::attention_plan(problem_, device, parsed_level);
}

gpu::KernelId AttentionWorkload::kernel_of(const gpu::DeviceInfo& device, const Plan& plan) const {
  const auto* const attention_plan = std::get_if<gpu::AttentionPlan>(&plan);
  return gpu::kernel_of(
      attention_plan == nullptr ? gpu::attention_plan(problem_, device) : *attention_plan,
      problem_.type);
}

namespace {

/// Finds the kernel in `variants` and, if it is there, stores a plan for it with other tuning
/// parameters in `tuned_plan`.
template <typename Variants>
bool find_tuned(const Variants& variants, gpu::KernelId kernel, const ParameterValues& values,
                TunedPlan& tuned_plan) {
  using Variant = typename Variants::value_type;
  using Tuning = decltype(Variant::tuning);
  for (const Variant& variant : variants) {
    if (variant.bf16 != kernel && variant.f16 != kernel) {
      continue;
    }
    // A tuning struct consists only of integers, in the same order as the values.
    std::array<int, sizeof(Tuning) / sizeof(int)> numbers{};
    if (values.size() != numbers.size()) {
      fail("{} has {} tuning parameters, not {}", gpu::info_of(kernel).name, numbers.size(),
           values.size());
    }
    std::ranges::transform(values, numbers.begin(), &std::pair<std::string, int>::second);
    const auto owned = std::make_shared<Variant>(variant);
    owned->tuning = std::bit_cast<Tuning>(numbers);
    tuned_plan.plan = gpu::AttentionPlan(static_cast<const Variant*>(owned.get()));
    tuned_plan.owner = owned;
    return true;
  }
  return false;
}

}  // namespace

TunedPlan AttentionWorkload::tuned(const gpu::DeviceInfo& device, gpu::KernelId kernel,
                                   const ParameterValues& values) const {
  TunedPlan tuned_plan{.plan = {}, .kernel = kernel, .support = gpu::can_run(problem_, device)};
  const auto is_its_kernel = [&](const gpu::AttentionPlan& plan) {
    return gpu::kernel_of(plan, problem_.type) == kernel;
  };
  if (tuned_plan.support &&
      std::ranges::none_of(gpu::attention_plans(problem_, device), is_its_kernel)) {
    tuned_plan.support = {
        fmt::format("{} does not support {}", gpu::info_of(kernel).name, describe())};
  }
  if (!find_tuned(gpu::kSinglePassVariants, kernel, values, tuned_plan) &&
      !find_tuned(gpu::kOnlineVariants, kernel, values, tuned_plan) &&
      !find_tuned(gpu::kMmaVariants, kernel, values, tuned_plan) &&
      !find_tuned(gpu::kMmaSmallVariants, kernel, values, tuned_plan) &&
      !find_tuned(gpu::kScalarVariants, kernel, values, tuned_plan)) {
    fail("{} is not an attention kernel", gpu::info_of(kernel).name);
  }
  const auto& plan = std::get<gpu::AttentionPlan>(tuned_plan.plan);
  tuned_plan.cta = gpu::cta_size(plan);
  if (tuned_plan.support) {
    tuned_plan.support = gpu::can_be_made(plan, device);
  }
  return tuned_plan;
}

std::vector<gpu::Launch> AttentionWorkload::launches(gpu::Device& device, const Operands& operands,
                                                     const Plan& plan) const {
  const auto* const attention_plan = std::get_if<gpu::AttentionPlan>(&plan);
  return {gpu::attention_launch(
      device, problem_, attention_operands(operands),
      attention_plan == nullptr ? gpu::attention_plan(problem_, device.info()) : *attention_plan)};
}

AttentionWorkload::Operand AttentionWorkload::operand(int operand_index) const {
  Operand place;
  place.strides = operand_index == kQuery ? problem_.q
                  : operand_index == kKey ? problem_.k
                                          : problem_.v;
  if (config_.layout == AttentionLayout::kPacked) {
    place.offset = operand_index * problem_.heads * problem_.head_dim;
  } else {
    place.input = static_cast<std::size_t>(operand_index);
  }
  return place;
}

ops::AttentionOperands AttentionWorkload::attention_operands(const Operands& operands) const {
  const auto address = [&](int operand_index) {
    const Operand place = operand(operand_index);
    return operands.inputs[place.input] +
           static_cast<gpu::DevicePtr>(place.offset) * size_of(problem_.type);
  };
  ops::AttentionOperands ours{
      .q = address(kQuery), .k = address(kKey), .v = address(kValue), .o = operands.output};
  if (problem_.varlen) {
    ours.cu_seqlens_q = operands.inputs[kOperands];
    ours.cu_seqlens_k = operands.inputs[kOperands + 1];
  }
  return ours;
}

AttentionWorkload::Sequence AttentionWorkload::sequence_at(std::int64_t row) const {
  Sequence sequence;
  if (!problem_.varlen) {
    const std::int64_t block = row / problem_.queries;
    sequence.image = heads_in_row() ? block : block / problem_.heads;
    sequence.queries = problem_.queries;
    sequence.keys = problem_.keys;
    return sequence;
  }
  std::size_t index = 0;
  while (row >= sequence.query + config_.query_lengths[index]) {
    sequence.query += config_.query_lengths[index];
    sequence.key += config_.key_lengths[index];
    ++index;
  }
  sequence.queries = config_.query_lengths[index];
  sequence.keys = config_.key_lengths[index];
  return sequence;
}

std::vector<float> AttentionWorkload::operand_rows(int operand_index, std::int64_t image,
                                                   std::int64_t head, std::int64_t first,
                                                   std::int64_t count) const {
  const Operand place = operand(operand_index);
  const auto width = static_cast<std::size_t>(problem_.head_dim);
  std::vector<float> rows(static_cast<std::size_t>(count) * width);
  for (std::int64_t row = 0; row < count; ++row) {
    inputs_[place.input].read(
        place.offset + image * place.strides.batch + head * place.strides.head +
            (first + row) * place.strides.row,
        std::span(rows).subspan(static_cast<std::size_t>(row) * width, width));
  }
  return rows;
}

template <typename Number>
void AttentionWorkload::attend(const Sequence& sequence, std::int64_t row,
                               std::span<const float> query, std::span<const float> keys,
                               std::span<const float> values, std::span<Number> output) const {
  const std::size_t width = query.size();
  auto visible_keys = static_cast<std::int64_t>(keys.size() / width);
  if (problem_.causal) {
    const std::int64_t extra = mistake_ == Mistake::kCausalOff ? 1 : 0;
    visible_keys = std::clamp<std::int64_t>(row + 1 + sequence.keys - sequence.queries + extra, 0,
                                            visible_keys);
  }
  const auto visible = [&](std::span<const float> rows) {
    return rows.first(static_cast<std::size_t>(visible_keys) * width);
  };
  const double scale = mistake_ == Mistake::kSkipScale ? 1.0 : problem_.scale;
  std::vector<Number> scores =
      ops::reference::attention_scores<Number>(query, visible(keys), scale);
  if (mistake_ == Mistake::kSkipRescale && visible_keys > kBlock) {
    // The first block's terms remain scaled by that block's maximum: too large by exp(difference of
    // the maxima).
    const auto end = scores.begin() + kBlock;
    const Number error = *std::ranges::max_element(scores) - *std::max_element(scores.begin(), end);
    std::for_each(scores.begin(), end, [=](Number& score) { score += error; });
  }
  ops::reference::weigh_rows<Number>(scores, visible(values), output, [this](Number weight) {
    return stored(problem_.type, weight);  // a framework stores the probabilities in a tensor
  });
}

template <typename Number, typename Write>
void AttentionWorkload::compute(const Tile& tile, Write write) const {
  const std::int64_t width = problem_.head_dim;
  const std::int64_t group = problem_.heads / problem_.key_heads();
  std::vector<Number> output(static_cast<std::size_t>(width));
  // Identifies the image, head and sequence whose operands are loaded.
  std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> loaded{-1, -1, -1, -1};
  std::vector<float> keys;
  std::vector<float> values;
  const std::int64_t end = tile.column + tile.columns;
  for (std::int64_t column = tile.column; column < end;) {
    const std::int64_t next = std::min(end, (column / width + 1) * width);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const Sequence sequence = sequence_at(tile.row + r);
      const std::int64_t head =
          heads_in_row() ? column / width : (tile.row + r) / problem_.queries % problem_.heads;
      const std::int64_t key_head =
          mistake_ == Mistake::kOtherHead ? head % problem_.key_heads() : head / group;
      if (const std::tuple key{sequence.image, sequence.key, sequence.keys, key_head};
          key != loaded) {
        loaded = key;
        std::int64_t count = sequence.keys;
        if (mistake_ == Mistake::kNoEnd) {
          const std::int64_t max_keys = total_length(config_.key_lengths) - sequence.key;
          count = std::min((count + kStep - 1) / kStep * kStep, max_keys);
        }
        keys = operand_rows(kKey, sequence.image, key_head, sequence.key, count);
        values = operand_rows(kValue, sequence.image, key_head, sequence.key, count);
        if (mistake_ == Mistake::kCountTail) {
          const std::int64_t padded = (count + kStep - 1) / kStep * kStep;
          keys.resize(static_cast<std::size_t>(padded * width));
          values.resize(keys.size());
        }
      }
      const std::int64_t row =
          problem_.varlen ? tile.row + r - sequence.query : (tile.row + r) % problem_.queries;
      attend<Number>(sequence, row,
                     operand_rows(kQuery, sequence.image, head, sequence.query + row, 1), keys,
                     values, output);
      for (std::int64_t c = column; c < next; ++c) {
        write(static_cast<std::size_t>(r * tile.columns + c - tile.column),
              output[static_cast<std::size_t>(c % width)]);
      }
    }
    column = next;
  }
}

void AttentionWorkload::reference(const Tile& tile, std::span<double> values) const {
  compute<double>(tile, [&](std::size_t index, double value) { values[index] = value; });
}

void AttentionWorkload::framework(const Tile& tile, std::span<double> values) const {
  compute<float>(tile, [&](std::size_t index, float value) {
    values[index] = double{rounded(problem_.type, double{value})};
  });
}

std::vector<Mutant> AttentionWorkload::mutants() const {
  std::vector<Mutant> all;
  const auto add = [&](const char* name, std::size_t input_index, const Tensor& tensor) {
    all.push_back({name, with_input(input_index, tensor)});
  };
  const auto mistaken = [&](const char* name, Mistake mistake) {
    all.push_back(mutant_with(name, &AttentionWorkload::mistake_, mistake));
  };
  if (config_.layout == AttentionLayout::kPacked) {
    const std::int64_t width = problem_.heads * problem_.head_dim;
    add("keys and values swapped", 0, inputs_[0].columns_swapped(width, 2 * width, width));
    if (problem_.heads > 1) {
      add("keys of the neighbouring head", 0,
          inputs_[0].columns_swapped(width, width + problem_.head_dim, problem_.head_dim));
    }
  } else {
    add("keys shifted by one row", kKey, inputs_[kKey].rows_moved(1));
    add("values shifted by one row", kValue, inputs_[kValue].rows_moved(1));
  }
  mistaken("skip the scale", Mistake::kSkipScale);
  if (problem_.keys > kBlock) {
    mistaken("skip one rescale", Mistake::kSkipRescale);
  }
  if (problem_.key_heads() != problem_.heads) {
    mistaken("keys of another head group", Mistake::kOtherHead);
  }
  if (problem_.varlen) {
    mistaken("keys of the next sequence", Mistake::kNoEnd);
  }
  if (problem_.causal) {
    mistaken("causal mask shifted by one key", Mistake::kCausalOff);
  } else if (constexpr std::int64_t kMaxKeys = 32;  // per zero of padding, for a measurable effect
             problem_.keys % kStep != 0 &&
             problem_.keys <= kMaxKeys * (kStep - problem_.keys % kStep)) {
    // Fewer zeros per key change the result less than rounding does.
    mistaken("padding keys counted", Mistake::kCountTail);
  }
  return all;
}

TorchTask AttentionWorkload::torch_task() const {
  if (problem_.varlen) {
    return {.why_not = "torch's attention requires sequences of equal length"};
  }
  if (config_.equal_keys) {
    return {.why_not = "its keys are all equal, but a task draws them at random"};
  }
  TorchTask task;
  std::string call =
      fmt::format("F.scaled_dot_product_attention(q, k, v, scale={}", problem_.scale);
  if (problem_.causal && problem_.queries == problem_.keys) {
    call += ", is_causal=True";
  } else if (problem_.causal) {
    // torch aligns its causal mask with the first key, but this operator with the last.
    task.forward =
        fmt::format("seen = torch.ones({}, {}, dtype=torch.bool, device=q.device).tril({})\n",
                    problem_.queries, problem_.keys, problem_.keys - problem_.queries);
    call += ", attn_mask=seen";
  }
  call += problem_.key_heads() != problem_.heads ? ", enable_gqa=True)" : ")";
  if (config_.layout == AttentionLayout::kPacked) {
    task.input(inputs_[0]);
    task.forward += fmt::format(
        "q, k, v = qkv.view({0}, {1}, 3, {2}, {3}).permute(2, 0, 3, 1, 4)\n"
        "return {4}.transpose(1, 2).reshape({5}, {6})",
        problem_.batch, problem_.queries, problem_.heads, problem_.head_dim, call,
        problem_.batch * problem_.queries, problem_.hidden());
    return task;
  }
  for (const int operand_index : {kQuery, kKey, kValue}) {
    const bool queries = operand_index == kQuery;
    task.input(inputs_[static_cast<std::size_t>(operand_index)],
               {problem_.batch, queries ? problem_.heads : problem_.key_heads(),
                queries ? problem_.queries : problem_.keys, problem_.head_dim});
  }
  task.forward += "return " + call;
  return task;
}

double AttentionWorkload::flops() const {
  constexpr double kProducts = 4.0;  // Q K^T and P V: a multiplication and an addition each
  const auto pairs = [&](std::int64_t length, std::int64_t key_length) {
    const auto queries = static_cast<double>(length);
    const auto keys = static_cast<double>(key_length);
    // Causal mask: query i sees i + 1 + keys - queries keys.
    return problem_.causal ? queries * (keys - queries) + queries * (queries + 1) / 2
                           : queries * keys;
  };
  double sum = static_cast<double>(problem_.batch) * pairs(problem_.queries, problem_.keys);
  if (problem_.varlen) {
    sum = 0;
    for (std::size_t i = 0; i < config_.query_lengths.size(); ++i) {
      sum += pairs(config_.query_lengths[i], config_.key_lengths[i]);
    }
  }
  return kProducts * sum * static_cast<double>(problem_.head_dim * problem_.heads);
}

}  // namespace fovea::lab
