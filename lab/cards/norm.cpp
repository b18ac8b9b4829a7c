// Cards of the LayerNorm kernels, by input and output type, and of the row-norm kernels.
#include "gpu/launch/norm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/cards/block_rounding.hpp"
#include "lab/cards/operator_workload.hpp"
#include "lab/cards/registry.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::lab {
namespace {

using ops::reference::Moments;
using ops::reference::normalise_row;
using ops::reference::row_moments;

// Rows have a mean of about their standard deviation, so that ignoring the mean changes the result.
constexpr Draw kRowDraw{0.5, 0.7};

/// Returns the moments that a kernel would compute if it did not subtract the mean.
template <typename Number>
Moments<Number> without_mean(const Moments<Number>& moments) {
  return {.mean = 0, .variance = moments.variance + moments.mean * moments.mean};
}

/// Base class of workloads whose first input consists of rows to normalise.
template <typename Derived, typename Problem>
class RowsWorkload : public OperatorWorkload<Derived, Problem> {
 public:
  // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): several classes derive from it
  RowsWorkload(const Problem& problem, std::uint64_t seed)
      : OperatorWorkload<Derived, Problem>(
            problem,
            {Tensor::random("x", problem.input, problem.rows, problem.width, kRowDraw, seed * 3)}) {
  }

  [[nodiscard]] bool is_of_rows() const override { return true; }
  [[nodiscard]] double flops() const override {
    constexpr double kFlopsPerElement = 8.0;  // for sums, squares and scaling
    return kFlopsPerElement * static_cast<double>(x().count());
  }
  [[nodiscard]] DType operand_type() const override { return x().type(); }
  // A NaN has to reach the output or its row scale; computing a maximum could drop it.
  [[nodiscard]] Poisoned poisoned() const override {
    const std::int64_t row = x().rows() / 2;
    return {this->with_input(0, x().with_value(row, x().columns() - 1, std::nan(""))), row};
  }

 protected:
  [[nodiscard]] const Tensor& x() const { return this->inputs_.front(); }
};

class NormWorkload final : public RowsWorkload<NormWorkload, ops::LayerNormProblem> {
 public:
  NormWorkload(const ops::LayerNormProblem& problem, std::uint64_t seed)
      : RowsWorkload(problem, seed) {
    inputs_.push_back(
        Tensor::random("weight", DType::kF32, 1, problem.width, {0.9, 0.4}, seed * 3 + 1));
    inputs_.push_back(
        Tensor::random("bias", DType::kF32, 1, problem.width, {0.1, 0.4}, seed * 3 + 2));
  }

  [[nodiscard]] OutputSpec output() const override {
    return {.type = in_blocks() ? DType::kE4M3 : problem_.output,
            .rows = problem_.rows,
            .columns = problem_.width,
            .row_scale = problem_.output == DType::kI8,
            .block_scales = in_blocks()};
  }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& /*plan*/) const override {
    return {gpu::layer_norm_launch(device, problem_,
                                   {.input = operands.inputs[0],
                                    .weight = operands.inputs[kWeight],
                                    .bias = operands.inputs[kBias],
                                    .output = operands.output,
                                    .row_scale = operands.row_scale,
                                    .block_scales = operands.block_scales})};
  }
  void reference(const Tile& tile, std::span<double> values) const override {
    std::vector<double> row(static_cast<std::size_t>(problem_.width));
    auto to = values.begin();
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      normalise<double>(tile.row + r, row);
      to = std::copy_n(row.begin() + tile.column, tile.columns, to);
    }
  }
  void framework(const Tile& tile, std::span<double> values) const override {
    std::vector<float> row(static_cast<std::size_t>(problem_.width));
    auto to = values.begin();
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      normalise<float>(tile.row + r, row);
      float scale = 1.0F;
      if (size_of(problem_.output) == 1) {
        // A framework quantises the bf16 tensor that its LayerNorm stores.
        for (float& value : row) {
          value = rounded(DType::kBF16, double{value});
        }
      }
      if (problem_.output == DType::kI8) {
        float largest = 0.0F;
        for (const float value : row) {
          largest = std::max(largest, std::abs(value));
        }
        scale = largest / 127.0F;
      }
      for (std::int64_t column = tile.column; column < tile.column + tile.columns; ++column) {
        const float value = row[static_cast<std::size_t>(column)] / scale;
        *to++ = in_blocks() ? double{value}
                            : double{rounded(problem_.output, double{value})} * double{scale};
      }
    }
    if (in_blocks()) {
      round_in_blocks(tile, values, scale_mistake_);
    }
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override {
    const Tensor& weight = inputs_[kWeight];
    std::vector<Mutant> all = {
        {"skip weight", with_input(kWeight, weight.filled(1.0))},
        {"skip bias", with_input(kBias, inputs_[kBias].filled(0.0))},
        {"weight of the neighbouring column", with_input(kWeight, weight.neighbours_swapped())},
        {"rows shifted by one", with_input(0, x().rows_moved(1))},
        mutant_with("skip the mean", &NormWorkload::skip_mean_, true)};
    if (in_blocks()) {
      for (const auto& [name, mistake] : kScaleMistakes) {
        all.push_back(mutant_with(std::string(name), &NormWorkload::scale_mistake_, mistake));
      }
    }
    return all;
  }
  [[nodiscard]] TorchTask torch_task() const override {
    if (in_blocks()) {
      return {.why_not = "plain torch has no block-scaled types"};
    }
    TorchTask task;
    task.input(x());
    task.weight(inputs_[kWeight], problem_.input);
    task.weight(inputs_[kBias], problem_.input);
    task.forward = fmt::format("y = F.layer_norm(x, ({},), self.weight, self.bias, {})\n",
                               problem_.width, problem_.eps);
    task.forward += problem_.row_scales
                        ? "scale = y.float().abs().amax(1, keepdim=True) / 127\n"
                          "return (y.float() / scale).round().to(torch.int8), scale"
                        : fmt::format("return y.to(torch.{})", torch_name(problem_.output));
    return task;
  }

 private:
  static constexpr std::size_t kWeight = 1;
  static constexpr std::size_t kBias = 2;

  [[nodiscard]] bool in_blocks() const { return problem_.output == DType::kMXFP8; }

  /// Computes one row of the result, in float64 or as a framework does.
  template <typename Number>
  void normalise(std::int64_t index, std::span<Number> values) const {
    const std::vector<float> row = x().row(index);
    const std::vector<float> weight = inputs_[kWeight].row(0);
    const std::vector<float> bias = inputs_[kBias].row(0);
    const Moments<Number> moments = row_moments<Number>(std::span(row));
    normalise_row<Number>(std::span(row), skip_mean_ ? without_mean(moments) : moments,
                          problem_.eps, std::span(weight), std::span(bias), values);
  }

  bool skip_mean_ = false;  // set in a mutant: the mean is not subtracted
  ScaleMistake scale_mistake_ = ScaleMistake::kNone;
};

/// Workload for row norms: the output is the scale and the shift of each row.
class RowNormWorkload final : public RowsWorkload<RowNormWorkload, gpu::RowNormProblem> {
 public:
  using RowsWorkload::RowsWorkload;

  [[nodiscard]] OutputSpec output() const override {
    return {.type = DType::kF32, .rows = problem_.rows, .columns = 2};
  }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& /*plan*/) const override {
    return {gpu::row_norm_launch(device, problem_,
                                 {.input = operands.inputs[0], .norms = operands.output})};
  }
  void reference(const Tile& tile, std::span<double> values) const override {
    norms<double>(tile, values);
  }
  void framework(const Tile& tile, std::span<double> values) const override {
    norms<float>(tile, values);
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override {
    return {
        {"rows shifted by one", with_input(0, x().rows_moved(1))},
        mutant_with("skip the mean", &RowNormWorkload::mistake_, Mistake::kNoMean),
        mutant_with("divide by width - 1", &RowNormWorkload::mistake_, Mistake::kSampleVariance)};
  }
  [[nodiscard]] TorchTask torch_task() const override {
    TorchTask task;
    task.input(x());
    task.forward = fmt::format(
        "variance, mean = torch.var_mean(x.float(), 1, correction=0)\n"
        "scale = torch.rsqrt(variance + {})\n"
        "return torch.stack((scale, -mean * scale), 1)",
        problem_.eps);
    return task;
  }

 private:
  enum class Mistake : std::uint8_t { kNone, kNoMean, kSampleVariance };

  template <typename Number>
  void norms(const Tile& tile, std::span<double> values) const {
    auto to = values.begin();
    for (std::int64_t index = tile.row; index < tile.row + tile.rows; ++index) {
      const std::vector<float> row = x().row(index);
      Moments<Number> moments = row_moments<Number>(std::span(row));
      if (mistake_ == Mistake::kNoMean) {
        moments = without_mean(moments);
      } else if (mistake_ == Mistake::kSampleVariance) {
        const auto count = static_cast<Number>(row.size());
        moments.variance *= count / (count - 1);
      }
      const Number scale = moments.scale(problem_.eps);
      const Number norm[] = {scale, -moments.mean * scale};
      for (std::int64_t column = tile.column; column < tile.column + tile.columns; ++column) {
        *to++ = static_cast<double>(norm[column]);
      }
    }
  }

  Mistake mistake_ = Mistake::kNone;
};

constexpr std::int64_t kTimedWidth = 768;

/// Returns small cases, with widths below and above those that fit into a kernel's registers and
/// the widths of so400m and giant, then the timed case. The case with 197 rows has mutants.
template <typename Measured, typename Problem>
std::vector<Case> norm_cases(Problem problem, std::int64_t min_width_rows) {
  std::vector<Case> cases;
  for (const auto& [rows, width] :
       std::initializer_list<std::pair<std::int64_t, std::int64_t>>{{min_width_rows, 8},
                                                                    {3, 768},
                                                                    {197, 776},
                                                                    {1001, 1024},
                                                                    {729, 1152},
                                                                    {257, 1536},
                                                                    {64, 2048},
                                                                    {kTimedRows, kTimedWidth}}) {
    problem.rows = rows;
    problem.width = width;
    cases.push_back(case_of<Measured>(fmt::format("rows{}_width{}", rows, width), problem)
                        .used({.bench = rows == kTimedRows,
                               .mutants = rows == 197,
                               .small = rows != kTimedRows}));
  }
  return cases;
}

/// Returns the profile gates for a card's timed case.
std::vector<ProfileGate> norm_gates(const std::vector<Case>& cases) {
  return {{.case_name = cases.back().name,
           .ctas_per_sm = 6,
           .ctas_reason =
               "each warp has a row of 1.5 KiB in flight; 24 warps hide a latency of 1 us "
               "at the copy rate"}};
}

/// Returns a function that makes the timed case, with the problem's fields set by the user.
template <typename Measured, typename Problem>
std::function<Case(ProblemFields&)> norm_with(Problem problem) {
  return [problem](ProblemFields& fields) {
    Problem other = problem;
    other.rows = kTimedRows;
    other.width = kTimedWidth;
    fields.take("rows", other.rows);
    fields.take("width", other.width, {.min = 8, .max = 2048, .step = 8});
    require_size("input", other.rows, other.width);
    return case_of<Measured>({}, other).used({.mutants = other.rows >= 16 && other.width >= 64});
  };
}

Card norm_card(std::string name, std::string operation, const ops::LayerNormProblem& problem) {
  const std::vector<Case> cases = norm_cases<NormWorkload>(problem, 1);
  const bool in_blocks = problem.output == DType::kMXFP8;
  return {.name = std::move(name),
          .operation = std::move(operation),
          .first_arch = in_blocks ? first_block_scaled_arch() : 80,
          .cases = cases,
          .tolerance = tolerance_of(problem.output),
          .problem = norm_with<NormWorkload>(problem),
          .kernels = {{.kernel = fmt::format("layer_norm_{}_*",
                                             to_string(in_blocks ? problem.output : problem.input)),
                       .registers = 128,
                       .shared_bytes = 16384,  // weight and bias of 2,048 columns
                       .sass_has = {"LDG.E.128", in_blocks ? "STG.E.64" : "STG.E.128"}}},
          .gates = norm_gates(cases)};
}

Card row_norm_card() {
  Card card;
  card.name = "row_norm";
  card.operation = "1 / deviation and -mean / deviation of rows, bf16 -> f32";
  // Results are f32: the framework's error is so small that a ratio to it would be random.
  card.cases = norm_cases<RowNormWorkload>(gpu::RowNormProblem{}, 129);
  card.problem = norm_with<RowNormWorkload>(gpu::RowNormProblem{});
  card.gates = norm_gates(card.cases);
  card.tolerance = {.difference = 1e-11, .tile_difference = 1e-11};
  card.kernels = {
      {.kernel = "row_norm_*", .arch = 90, .registers = 128, .sass_has = {"LDG.E.128"}}};
  return card;
}

}  // namespace

std::vector<Card> norm_cards() {
  const auto problem = [](DType input, DType output) {
    return ops::LayerNormProblem{
        .input = input, .output = output, .row_scales = output == DType::kI8};
  };
  return {
      row_norm_card(),
      norm_card("layer_norm", "LayerNorm, bf16 -> bf16", problem(DType::kBF16, DType::kBF16)),
      norm_card("layer_norm_i8", "LayerNorm, bf16 -> i8 with a scale per row",
                problem(DType::kBF16, DType::kI8)),
      norm_card("layer_norm_mxfp8", "LayerNorm, bf16 -> e4m3 with a scale per 32",
                problem(DType::kBF16, DType::kMXFP8)),
      norm_card("layer_norm_f32", "LayerNorm, f32 -> bf16", problem(DType::kF32, DType::kBF16))};
}

}  // namespace fovea::lab
