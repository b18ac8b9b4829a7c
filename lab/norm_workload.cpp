// Inputs, exact results, same-precision results and mutants of LayerNorm and of row norms.
#include "lab/norm_workload.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/reference/rows.hpp"

namespace fovea::lab {
namespace {

using ops::reference::Moments;
using ops::reference::moments_of;
using ops::reference::normalise_row;

constexpr std::size_t kInput = 0;
constexpr std::size_t kWeight = 1;
constexpr std::size_t kBias = 2;

constexpr double kFlopsAnElement = 8.0;  // sums, squares, scaling

// Rows have a mean as large as their spread: leaving it in, or out of the variance, then shows.
constexpr Draw kRowDraw{0.5, 0.7};

}  // namespace

NormWorkload::NormWorkload(const ops::LayerNormProblem& problem, std::uint64_t seed)
    : OperatorWorkload(problem) {
  inputs_.push_back(
      Tensor::random("x", problem.input, problem.rows, problem.width, kRowDraw, seed * 3));
  inputs_.push_back(
      Tensor::random("weight", DType::kF32, 1, problem.width, {0.9, 0.4}, seed * 3 + 1));
  inputs_.push_back(
      Tensor::random("bias", DType::kF32, 1, problem.width, {0.1, 0.4}, seed * 3 + 2));
}

OutputSpec NormWorkload::output() const {
  OutputSpec spec;
  spec.type = problem_.output;
  spec.rows = problem_.rows;
  spec.columns = problem_.width;
  spec.row_scale = problem_.output == DType::kI8;
  return spec;
}

std::vector<gpu::Launch> NormWorkload::launches(gpu::Device& device, const Operands& operands,
                                                std::string_view) const {
  return {gpu::layer_norm_launch(device, problem_,
                                 {.input = operands.inputs[kInput],
                                  .weight = operands.inputs[kWeight],
                                  .bias = operands.inputs[kBias],
                                  .output = operands.output,
                                  .row_scale = operands.row_scale})};
}

template <typename Number>
void NormWorkload::normalise(std::int64_t row, std::span<Number> values) const {
  const std::vector<float> x = inputs_[kInput].row(row);
  const std::vector<float> weight = inputs_[kWeight].row(0);
  const std::vector<float> bias = inputs_[kBias].row(0);
  Moments<Number> moments = moments_of<Number>(std::span(x));
  if (!steps_.mean) {
    moments = {.mean = 0, .variance = moments.variance + moments.mean * moments.mean};
  }
  normalise_row<Number>(std::span(x), moments, steps_.eps ? problem_.eps : 0.0, std::span(weight),
                        std::span(bias), values);
}

void NormWorkload::reference(const Tile& tile, std::span<double> values) const {
  std::vector<double> row(static_cast<std::size_t>(problem_.width));
  auto to = values.begin();
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    normalise<double>(tile.row + r, row);
    to = std::copy_n(row.begin() + tile.column, tile.columns, to);
  }
}

void NormWorkload::framework(const Tile& tile, std::span<double> values) const {
  std::vector<float> row(static_cast<std::size_t>(problem_.width));
  auto to = values.begin();
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    normalise<float>(tile.row + r, row);
    float scale = 1.0F;
    if (problem_.output == DType::kI8) {
      // A framework quantises the bf16 tensor that its LayerNorm has stored.
      float largest = 0.0F;
      for (float& value : row) {
        value = rounded(DType::kBF16, double{value});
        largest = std::max(largest, std::abs(value));
      }
      scale = largest / 127.0F;
    }
    for (std::int64_t column = tile.column; column < tile.column + tile.columns; ++column) {
      const float value = row[static_cast<std::size_t>(column)] / scale;
      *to++ = double{rounded(problem_.output, double{value})} * double{scale};
    }
  }
}

std::vector<Mutant> NormWorkload::mutants() const {
  std::vector<Mutant> all;
  const auto with = [&](std::string name, std::size_t which, Tensor tensor) {
    std::vector<Tensor> inputs = inputs_;
    inputs[which] = std::move(tensor);
    all.push_back(
        {std::move(name),
         std::shared_ptr<const Workload>(new NormWorkload(problem_, std::move(inputs), steps_)),
         true});
  };
  const auto without = [&](std::string name, Steps steps) {
    all.push_back({std::move(name),
                   std::shared_ptr<const Workload>(new NormWorkload(problem_, inputs_, steps)),
                   false});
  };
  const Tensor& weight = inputs_[kWeight];
  const Tensor& bias = inputs_[kBias];
  with("skip weight", kWeight,
       Tensor::uniform(weight.name(), weight.type(), 1, weight.columns(), 1.0));
  with("skip bias", kBias, Tensor::uniform(bias.name(), bias.type(), 1, bias.columns(), 0.0));
  with("weight of the neighbouring column", kWeight, weight.neighbours_swapped());
  with("rows one off", kInput, inputs_[kInput].rows_moved(1));
  without("skip the mean", {.mean = false, .eps = true});
  return all;
}

// A scale a row hides a NaN from integers, and from a maximum.
Poisoned NormWorkload::poisoned() const {
  std::vector<Tensor> inputs = inputs_;
  const std::int64_t row = problem_.rows / 2;
  inputs[kInput] = inputs[kInput].with(row, problem_.width - 1, std::nan(""));
  return {std::shared_ptr<const Workload>(new NormWorkload(problem_, std::move(inputs), steps_)),
          row};
}

double NormWorkload::flops() const {
  return kFlopsAnElement * static_cast<double>(problem_.rows) * static_cast<double>(problem_.width);
}

RowNormWorkload::RowNormWorkload(const gpu::RowNormProblem& problem, std::uint64_t seed)
    : RowNormWorkload(
          problem,
          Tensor::random("x", problem.input, problem.rows, problem.width, kRowDraw, seed * 3),
          Mistake::kNone) {}

OutputSpec RowNormWorkload::output() const {
  return {.type = DType::kF32, .rows = problem_.rows, .columns = 2};
}

std::vector<gpu::Launch> RowNormWorkload::launches(gpu::Device& device, const Operands& operands,
                                                   std::string_view) const {
  return {gpu::row_norm_launch(device, problem_,
                               {.input = operands.inputs.front(), .norms = operands.output})};
}

template <typename Number>
void RowNormWorkload::norms(const Tile& tile, std::span<double> values) const {
  auto to = values.begin();
  for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
    const std::vector<float> x = this->x().row(row);
    Moments<Number> moments = moments_of<Number>(std::span(x));
    if (mistake_ == Mistake::kNoMean) {
      moments = {.mean = 0, .variance = moments.variance + moments.mean * moments.mean};
    } else if (mistake_ == Mistake::kSampleVariance) {
      const auto count = static_cast<Number>(x.size());
      moments.variance *= count / (count - 1);
    }
    const Number scale = moments.scale(problem_.eps);
    const Number norm[] = {scale, -moments.mean * scale};
    for (std::int64_t column = tile.column; column < tile.column + tile.columns; ++column) {
      *to++ = static_cast<double>(norm[column]);
    }
  }
}

void RowNormWorkload::reference(const Tile& tile, std::span<double> values) const {
  norms<double>(tile, values);
}

void RowNormWorkload::framework(const Tile& tile, std::span<double> values) const {
  norms<float>(tile, values);
}

std::vector<Mutant> RowNormWorkload::mutants() const {
  const auto mistaken = [&](std::string name, Tensor x, Mistake mistake) {
    return Mutant{
        std::move(name),
        std::shared_ptr<const Workload>(new RowNormWorkload(problem_, std::move(x), mistake)),
        mistake == Mistake::kNone};
  };
  return {mistaken("rows one off", x().rows_moved(1), Mistake::kNone),
          mistaken("skip the mean", x(), Mistake::kNoMean),
          mistaken("divide by width - 1", x(), Mistake::kSampleVariance)};
}

Poisoned RowNormWorkload::poisoned() const {
  const std::int64_t row = problem_.rows / 2;
  return {std::shared_ptr<const Workload>(new RowNormWorkload(
              problem_, x().with(row, problem_.width - 1, std::nan("")), mistake_)),
          row};
}

double RowNormWorkload::flops() const {
  return kFlopsAnElement * static_cast<double>(problem_.rows) * static_cast<double>(problem_.width);
}

}  // namespace fovea::lab
