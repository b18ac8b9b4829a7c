// GEMM's inputs, exact result, same-precision result and mutants.
#include "lab/gemm_workload.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "ops/reference/rows.hpp"
#include "ops/weights.hpp"

namespace fovea::lab {
namespace {

using gpu::GemmEpilogue;
using gpu::GemmProblem;
using ops::reference::gelu_tanh;

constexpr double kSpread = 1.3;  // standard deviation of y

/// Operands in the units in which their type has the most precision.
Draw draw_of(DType type, double width_of_float) {
  switch (type) {
    case DType::kE4M3:
      return {2.0, 40.0};
    case DType::kU8:
      return {120.0, 60.0};
    case DType::kI8:
      return {2.0, 40.0};
    default:
      return {0.05 * width_of_float, width_of_float};
  }
}

/// Of one-byte outputs: results up to 14 fit e4m3, up to 8 fit i8.
double output_scale(DType type) {
  return type == DType::kI8 ? 8.0 / (127 + ops::kGeluI8Offset) : 1.0 / 32;
}

bool one_byte(DType type) {
  return size_of(type) == 1;
}

GemmTensors drawn(const GemmProblem& problem, std::uint64_t seed) {
  const auto k = static_cast<double>(problem.k);
  const Draw a = draw_of(problem.a, 1.0);
  const Draw b = draw_of(problem.b, kSpread / std::sqrt(k));
  GemmTensors tensors;
  tensors.a = Tensor::random("a", problem.a, problem.m, problem.k, a, seed * 7);
  tensors.b = Tensor::random("b", problem.b, problem.n, problem.k, b, seed * 7 + 1);
  if (problem.epilogue == GemmEpilogue::kPosition) {
    tensors.position = Tensor::random("position", DType::kBF16, problem.tokens, problem.n,
                                      {0.1, 0.7}, seed * 7 + 2);
  } else {
    tensors.bias = Tensor::random("bias", DType::kF32, 1, problem.n, {0.1, 0.7}, seed * 7 + 3);
  }
  if (one_byte(problem.a)) {
    const double width = std::hypot(a.mean, a.deviation) * b.deviation * std::sqrt(k);
    const double scale = kSpread / width;
    tensors.column_scale = Tensor::random("column_scale", DType::kF32, 1, problem.n,
                                          {scale, 0.2 * scale}, seed * 7 + 4);
  }
  if (problem.row_scale) {
    tensors.row_scale =
        Tensor::random("row_scale", DType::kF32, 1, problem.m, {1.0, 0.2}, seed * 7 + 5);
  }
  if (problem.row_norm) {
    // To a kernel these are numbers like others; of other sizes, so that no two can be exchanged.
    tensors.row_norm =
        Tensor::random("row_norm", DType::kF32, problem.m, 2, {0.8, 0.4}, seed * 7 + 4);
    tensors.column_sum =
        Tensor::random("column_sum", DType::kF32, 1, problem.n, {-0.2, 0.7}, seed * 7 + 5);
  }
  if (problem.epilogue == GemmEpilogue::kResidual) {
    tensors.residual =
        Tensor::random("residual", problem.output, problem.m, problem.n, {0.1, 1.0}, seed * 7 + 6);
  }
  return tensors;
}

}  // namespace

GemmWorkload::GemmWorkload(const GemmProblem& problem, std::uint64_t seed)
    : GemmWorkload(problem, drawn(problem, seed)) {}

GemmWorkload::GemmWorkload(const GemmProblem& problem, GemmTensors tensors)
    : OperatorWorkload(problem), tensors_(std::move(tensors)) {
  for (const Tensor* tensor :
       {&tensors_.a, &tensors_.b, &tensors_.bias, &tensors_.column_scale, &tensors_.row_scale,
        &tensors_.row_norm, &tensors_.column_sum, &tensors_.position, &tensors_.residual}) {
    if (!tensor->name().empty()) {
      inputs_.push_back(*tensor);
    }
  }
}

OutputSpec GemmWorkload::output() const {
  OutputSpec spec{.type = problem_.output, .rows = problem_.m, .columns = problem_.n};
  if (one_byte(problem_.output)) {
    // As the kernel takes it.
    spec.scale = double{static_cast<float>(output_scale(problem_.output))};
    spec.offset = problem_.output == DType::kI8 ? ops::kGeluI8Offset : 0.0;
  }
  if (problem_.epilogue == GemmEpilogue::kResidual) {
    spec.initial = static_cast<int>(inputs_.size()) - 1;  // the residual is the last input
  }
  return spec;
}

gpu::GemmOperands GemmWorkload::gemm_operands(const Operands& operands) const {
  const auto address = [&](const Tensor& tensor) -> gpu::DevicePtr {
    const auto found = std::ranges::find(inputs_, tensor.name(), &Tensor::name);
    return found == inputs_.end()
               ? 0
               : operands.inputs[static_cast<std::size_t>(found - inputs_.begin())];
  };
  return {.a = address(tensors_.a),
          .b = address(tensors_.b),
          .output = operands.output,
          .bias = address(tensors_.bias),
          .column_scale = address(tensors_.column_scale),
          .row_scale = address(tensors_.row_scale),
          .row_norm = address(tensors_.row_norm),
          .column_sum = address(tensors_.column_sum),
          .position = address(tensors_.position),
          .output_scale = static_cast<float>(output().scale)};
}

std::vector<std::string> GemmWorkload::plans(const gpu::DeviceInfo& device) const {
  std::vector<std::string> names;
  for (const gpu::GemmPlan& plan : gpu::gemm_plans(problem_, device)) {
    names.push_back(gpu::to_string(plan));
  }
  return names;
}

std::vector<gpu::Launch> GemmWorkload::launches(gpu::Device& device, const Operands& operands,
                                                std::string_view name) const {
  const gpu::GemmOperands ours = gemm_operands(operands);
  if (name.empty()) {
    return {gpu::gemm_launch(device, problem_, ours)};
  }
  for (const gpu::GemmPlan& plan : gpu::gemm_plans(problem_, device.info())) {
    if (gpu::to_string(plan) == name) {
      return {gpu::gemm_launch(device, problem_, ours, plan)};
    }
  }
  fail("{} has no plan '{}'", describe(), name);
}

template <typename Number>
std::vector<Number> GemmWorkload::product(const Tile& tile) const {
  const auto depth = static_cast<std::size_t>(problem_.k);
  const auto columns = static_cast<std::size_t>(tile.columns);
  std::vector<float> row(depth);
  std::vector<Number> b(depth * columns);  // (k, column), so that the inner loop runs over columns
  for (std::size_t column = 0; column < columns; ++column) {
    tensors_.b.read((tile.column + static_cast<std::int64_t>(column)) * problem_.k, row);
    for (std::size_t k = 0; k < depth; ++k) {
      b[k * columns + column] = static_cast<Number>(row[k]);
    }
  }
  std::vector<Number> sums(tile.count());
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    tensors_.a.read((tile.row + r) * problem_.k, row);
    Number* const sum = sums.data() + static_cast<std::size_t>(r) * columns;
    for (std::size_t k = 0; k < depth; ++k) {
      const auto a = static_cast<Number>(row[k]);
      const Number* const b_row = b.data() + k * columns;
      for (std::size_t column = 0; column < columns; ++column) {
        sum[column] += a * b_row[column];
      }
    }
  }
  return sums;
}

void GemmWorkload::reference(const Tile& tile, std::span<double> values) const {
  const std::vector<double> sums = product<double>(tile);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::int64_t row = tile.row + static_cast<std::int64_t>(i) / tile.columns;
    const std::int64_t column = tile.column + static_cast<std::int64_t>(i) % tile.columns;
    double y = sums[i];
    if (one_byte(problem_.a)) {
      y *= tensors_.column_scale.at(0, column);
    }
    if (problem_.row_scale) {
      y *= tensors_.row_scale.at(0, row);
    }
    if (problem_.row_norm) {
      y = y * tensors_.row_norm.at(row, 0) +
          tensors_.row_norm.at(row, 1) * tensors_.column_sum.at(0, column);
    }
    switch (problem_.epilogue) {
      case GemmEpilogue::kBias:
        y += tensors_.bias.at(0, column);
        break;
      case GemmEpilogue::kGelu:
        y = gelu_tanh(y + tensors_.bias.at(0, column));
        break;
      case GemmEpilogue::kResidual:
        y += tensors_.bias.at(0, column) + tensors_.residual.at(row, column);
        break;
      case GemmEpilogue::kPosition:
        y += tensors_.position.at(row % problem_.tokens, column);
        break;
    }
    values[i] = y;
  }
}

void GemmWorkload::framework(const Tile& tile, std::span<double> values) const {
  const std::vector<float> sums = product<float>(tile);
  const auto bf16 = [](float value) { return rounded(DType::kBF16, double{value}); };
  const OutputSpec spec = output();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::int64_t row = tile.row + static_cast<std::int64_t>(i) / tile.columns;
    const std::int64_t column = tile.column + static_cast<std::int64_t>(i) % tile.columns;
    float y = sums[i];
    if (one_byte(problem_.a)) {
      y *= static_cast<float>(tensors_.column_scale.at(0, column));
    }
    if (problem_.row_scale) {
      y *= static_cast<float>(tensors_.row_scale.at(0, row));
    }
    if (problem_.row_norm) {
      y = y * static_cast<float>(tensors_.row_norm.at(row, 0)) +
          static_cast<float>(tensors_.row_norm.at(row, 1)) *
              static_cast<float>(tensors_.column_sum.at(0, column));
    }
    // Bias is part of a framework's matrix product; everything after it is a tensor of its own.
    switch (problem_.epilogue) {
      case GemmEpilogue::kBias:
        y += static_cast<float>(tensors_.bias.at(0, column));
        break;
      case GemmEpilogue::kGelu: {
        const float h = bf16(y + static_cast<float>(tensors_.bias.at(0, column)));
        y = bf16(static_cast<float>(gelu_tanh(double{h})));
        break;
      }
      case GemmEpilogue::kResidual:
        y = bf16(y + static_cast<float>(tensors_.bias.at(0, column))) +
            static_cast<float>(tensors_.residual.at(row, column));
        break;
      case GemmEpilogue::kPosition:
        y = bf16(y) + static_cast<float>(tensors_.position.at(row % problem_.tokens, column));
        break;
    }
    values[i] = (double{rounded(spec.type, double{y} / spec.scale - spec.offset)} + spec.offset) *
                spec.scale;
  }
}

std::vector<Mutant> GemmWorkload::mutants() const {
  std::vector<Mutant> all;
  const auto add = [&](std::string name, const GemmProblem& problem, GemmTensors tensors) {
    all.push_back(
        {std::move(name), std::make_shared<GemmWorkload>(problem, std::move(tensors)), true});
  };
  const auto with = [&](std::string name, Tensor GemmTensors::* which, Tensor tensor) {
    GemmTensors tensors = tensors_;
    tensors.*which = std::move(tensor);
    add(std::move(name), problem_, std::move(tensors));
  };
  constexpr std::int64_t kUnit = 16;  // bytes or elements that copies and swizzles move as one
  if (problem_.k >= 2 * kUnit) {
    with("permute K", &GemmTensors::b, tensors_.b.columns_swapped(0, kUnit, kUnit));
  }
  const Tensor& bias = tensors_.bias;
  if (problem_.epilogue == GemmEpilogue::kPosition) {
    with("shift the position table by one row", &GemmTensors::position,
         tensors_.position.rows_moved(1));
  } else {
    with("skip bias", &GemmTensors::bias,
         Tensor::uniform(bias.name(), bias.type(), 1, bias.columns(), 0.0));
  }
  if (problem_.epilogue == GemmEpilogue::kGelu) {
    GemmProblem bare = problem_;
    bare.epilogue = GemmEpilogue::kBias;
    add("drop GELU", bare, tensors_);
  }
  if (problem_.epilogue == GemmEpilogue::kResidual) {
    const Tensor& residual = tensors_.residual;
    with("skip the residual", &GemmTensors::residual,
         Tensor::uniform(residual.name(), residual.type(), residual.rows(), residual.columns(),
                         0.0));
  }
  if (one_byte(problem_.a)) {
    const Tensor& scale = tensors_.column_scale;
    with("one scale for all columns", &GemmTensors::column_scale,
         Tensor::uniform(scale.name(), scale.type(), 1, scale.columns(), scale.at(0, 0)));
  }
  if (problem_.row_scale) {
    const Tensor& scale = tensors_.row_scale;
    with("one scale for all rows", &GemmTensors::row_scale,
         Tensor::uniform(scale.name(), scale.type(), 1, scale.columns(), 1.0));
  }
  if (problem_.row_norm) {
    const Tensor& norm = tensors_.row_norm;
    const Tensor& sum = tensors_.column_sum;
    with("norms of the neighbouring row", &GemmTensors::row_norm, norm.rows_moved(1));
    with("scale and shift exchanged", &GemmTensors::row_norm, norm.columns_swapped(0, 1, 1));
    with("skip the shift", &GemmTensors::column_sum,
         Tensor::uniform(sum.name(), sum.type(), 1, sum.columns(), 0.0));
    GemmProblem bare = problem_;
    bare.row_norm = false;
    add("drop the norm", bare, tensors_);
  }
  return all;
}

// Epilogues that take a maximum or a minimum could lose it.
Poisoned GemmWorkload::poisoned() const {
  const bool floats = problem_.a == DType::kBF16 || problem_.a == DType::kE4M3;
  if (problem_.output == DType::kI8 || !(floats || problem_.row_scale)) {
    return {};
  }
  const std::int64_t row = problem_.m / 2;
  GemmTensors tensors = tensors_;
  if (problem_.row_scale) {
    tensors.row_scale = tensors.row_scale.with(0, row, std::nan(""));
  } else {
    tensors.a = tensors.a.with(row, problem_.k - 1, std::nan(""));
  }
  return {std::make_shared<GemmWorkload>(problem_, std::move(tensors)), row};
}

double GemmWorkload::flops() const {
  return 2.0 * static_cast<double>(problem_.m) * static_cast<double>(problem_.n) *
         static_cast<double>(problem_.k);
}

Smoke GemmWorkload::smoke() const {
  if (problem_.epilogue != GemmEpilogue::kPosition || problem_.a != DType::kE4M3) {
    return {};
  }
  constexpr double kUniform = 1.5;
  constexpr std::int64_t kCount = 1024;
  GemmTensors tensors = tensors_;
  tensors.a = Tensor::uniform("a", problem_.a, problem_.m, problem_.k, kUniform);
  tensors.b = Tensor::uniform("b", problem_.b, problem_.n, problem_.k, kUniform);
  tensors.position = Tensor::uniform("position", DType::kBF16, problem_.tokens, problem_.n, 0.0);
  tensors.column_scale = Tensor::uniform("column_scale", DType::kF32, 1, problem_.n, 1.0);
  return {std::make_shared<GemmWorkload>(problem_, std::move(tensors)), kCount,
          kCount * kUniform * kUniform * static_cast<double>(problem_.k)};
}

}  // namespace fovea::lab
