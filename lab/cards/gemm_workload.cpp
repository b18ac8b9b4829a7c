// GEMM's inputs, exact result, same-precision result and mutants.
#include "lab/cards/gemm_workload.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/variants.hpp"
#include "ops/block_scales.hpp"
#include "ops/call.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::lab {
namespace {

using gpu::GemmEpilogue;
using gpu::GemmProblem;
using ops::reference::gelu_tanh;

constexpr double kSpread = 1.3;  // standard deviation of y

/// Returns a distribution whose values lie in the range in which the type is most precise.
Draw operand_draw(DType type, double width_of_float) {
  switch (type) {
    case DType::kE4M3:
    case DType::kMXFP8:
      return {2.0, 40.0};
    case DType::kU8:
      return {120.0, 60.0};
    case DType::kI8:
      return {2.0, 40.0};
    default:
      return {0.05 * width_of_float, width_of_float};
  }
}

/// Returns the scale of one-byte outputs: results up to 14 are representable in e4m3, up to 8 in
/// i8.
double output_scale(DType type) {
  return type == DType::kI8 ? 8.0 / (127 + ops::kGeluI8Offset) : 1.0 / 32;
}

bool is_one_byte(DType type) {
  return size_of(type) == 1;
}

/// Returns whether operands of this type have a scale per column of the output.
bool has_column_scale(DType type) {
  return is_one_byte(type) && type != DType::kMXFP8;
}

/// Returns the type of the elements without their block scales.
DType number_type(DType type) {
  return type == DType::kMXFP8 ? DType::kE4M3 : type;
}

/// Returns block scales for a matrix such that its values have a standard deviation of about
/// `width`: powers of two around one, most of which differ from their neighbours.
Tensor drawn_scales(const std::string& name, std::int64_t rows, std::int64_t columns,
                    const Draw& numbers, double width, std::uint64_t seed) {
  constexpr Draw kPowers{126.5, 1.0};
  const double middle =
      kPowers.mean + std::log2(width / std::hypot(numbers.mean, numbers.deviation));
  return Tensor::random(name, DType::kU8, ops::BlockScales{rows, columns}.bytes() / ops::kAtomBytes,
                        ops::kAtomBytes, {middle, kPowers.deviation}, seed);
}

GemmTensors drawn(const GemmProblem& problem, std::uint64_t seed) {
  const auto k = static_cast<double>(problem.k);
  const Draw a = operand_draw(problem.a, 1.0);
  const Draw b = operand_draw(problem.b, kSpread / std::sqrt(k));
  GemmTensors tensors;
  tensors.a = Tensor::random("a", number_type(problem.a), problem.m, problem.k, a, seed * 7);
  tensors.b = Tensor::random("b", number_type(problem.b), problem.n, problem.k, b, seed * 7 + 1);
  if (problem.a == DType::kMXFP8) {
    tensors.a_scales = drawn_scales("a_scales", problem.m, problem.k, a, 1.0, seed * 7 + 4);
    tensors.b_scales =
        drawn_scales("b_scales", problem.n, problem.k, b, kSpread / std::sqrt(k), seed * 7 + 5);
  }
  if (problem.epilogue == GemmEpilogue::kPosition) {
    tensors.position = Tensor::random("position", DType::kBF16, problem.tokens, problem.n,
                                      {0.1, 0.7}, seed * 7 + 2);
  } else {
    tensors.bias = Tensor::random("bias", DType::kF32, 1, problem.n, {0.1, 0.7}, seed * 7 + 3);
  }
  if (has_column_scale(problem.a)) {
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
    // The kernel accepts any scale and shift; their ranges differ, so that exchanging them is
    // detected.
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
    : OperatorWorkload(problem), tensors_(drawn(problem, seed)) {
  gather_inputs();
}

void GemmWorkload::gather_inputs() {
  inputs_.clear();
  for (const Tensor* tensor :
       {&tensors_.a, &tensors_.b, &tensors_.bias, &tensors_.column_scale, &tensors_.row_scale,
        &tensors_.row_norm, &tensors_.column_sum, &tensors_.position, &tensors_.a_scales,
        &tensors_.b_scales, &tensors_.residual}) {
    if (!tensor->name().empty()) {
      inputs_.push_back(*tensor);
    }
  }
}

std::vector<std::size_t> GemmWorkload::written_just_before() const {
  std::vector<std::size_t> written;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const std::string& name = inputs_[i].name();
    if (name == "a" || name == "a_scales" || name == "row_scale" || name == "row_norm" ||
        name == "residual") {
      written.push_back(i);
    }
  }
  return written;
}

OutputSpec GemmWorkload::output() const {
  OutputSpec spec{.type = number_type(problem_.output), .rows = problem_.m, .columns = problem_.n};
  spec.block_scales = problem_.output == DType::kMXFP8;
  if (has_column_scale(problem_.output)) {
    // Rounded to f32, the type that the kernel takes.
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
    const auto match = std::ranges::find(inputs_, tensor.name(), &Tensor::name);
    return match == inputs_.end()
               ? 0
               : operands.inputs[static_cast<std::size_t>(match - inputs_.begin())];
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
          .output_scale = static_cast<float>(output().scale),
          .a_scales = address(tensors_.a_scales),
          .b_scales = address(tensors_.b_scales),
          .output_scales = operands.block_scales};
}

std::vector<Plan> GemmWorkload::plans(const gpu::DeviceInfo& device) const {
  std::vector<Plan> all = {Plan{}};
  std::ranges::copy(gpu::gemm_plans(problem_, device), std::back_inserter(all));
  return all;
}

gpu::KernelId GemmWorkload::kernel_of(const gpu::DeviceInfo& device, const Plan& plan) const {
  if (const auto* const planned = std::get_if<gpu::GemmPlan>(&plan); planned != nullptr) {
    return planned->kernel;
  }
  const gpu::GemmChoice choice = gpu::choose_gemm(problem_, device);
  if (!choice.support) {
    fail("{}", choice.support.why);
  }
  return choice.plan.kernel;
}

TunedPlan GemmWorkload::tuned(const gpu::DeviceInfo& device, gpu::KernelId kernel,
                              const ParameterValues& values) const {
  const auto variant = std::ranges::find(gpu::kGemmVariants, kernel, &gpu::GemmVariant::kernel);
  if (variant == gpu::kGemmVariants.end()) {
    fail("{} is not a GEMM kernel", gpu::info_of(kernel).name);
  }
  gemm::Tuning tuning = variant->tuning;
  for (const auto& [name, field] : {std::pair("consumers", &gemm::Tuning::consumers),
                                    {"columns", &gemm::Tuning::columns},
                                    {"stages", &gemm::Tuning::stages},
                                    {"vector", &gemm::Tuning::vector},
                                    {"k_blocks", &gemm::Tuning::k_blocks},
                                    {"ahead", &gemm::Tuning::ahead},
                                    {"raster", &gemm::Tuning::raster}}) {
    tuning.*field = value_of(values, name);
  }
  gpu::GemmChoice choice = gpu::tuned_gemm(problem_, device, kernel, tuning);
  return {.plan = choice.plan,
          .kernel = kernel,
          .support = std::move(choice.support),
          .cta = {choice.plan.threads(), choice.plan.shared_bytes()}};
}

std::vector<gpu::Launch> GemmWorkload::launches(gpu::Device& device, const Operands& operands,
                                                const Plan& plan) const {
  const gpu::GemmOperands ours = gemm_operands(operands);
  const auto* const planned = std::get_if<gpu::GemmPlan>(&plan);
  return {planned == nullptr ? gpu::gemm_launch(device, problem_, ours)
                             : gpu::gemm_launch(device, problem_, ours, *planned)};
}

void GemmWorkload::read_row(const Tensor& operand, const Tensor& scales, std::int64_t index,
                            std::span<float> row) const {
  operand.read(index * problem_.k, row);
  if (scales.name().empty()) {
    return;
  }
  const ops::BlockScales layout{operand.rows(), problem_.k};
  for (std::int64_t k = 0; k < problem_.k; ++k) {
    const std::int64_t place = layout.place(index, k / ops::kScaleBlock);
    row[static_cast<std::size_t>(k)] *= to_float(Float8E8M0{
        static_cast<std::uint8_t>(scales.at(place / ops::kAtomBytes, place % ops::kAtomBytes))});
  }
}

template <typename Number>
std::vector<Number> GemmWorkload::product(const Tile& tile) const {
  const auto depth = static_cast<std::size_t>(problem_.k);
  const auto columns = static_cast<std::size_t>(tile.columns);
  std::vector<float> row(depth);
  std::vector<Number> b(depth * columns);  // (k, column), so that the inner loop runs over columns
  for (std::size_t column = 0; column < columns; ++column) {
    read_row(tensors_.b, tensors_.b_scales, tile.column + static_cast<std::int64_t>(column), row);
    for (std::size_t k = 0; k < depth; ++k) {
      b[k * columns + column] = static_cast<Number>(row[k]);
    }
  }
  std::vector<Number> sums(tile.count());
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    read_row(tensors_.a, tensors_.a_scales, tile.row + r, row);
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

template <typename Number>
void GemmWorkload::compute(const Tile& tile, std::span<double> values) const {
  const auto element = [](const Tensor& tensor, std::int64_t row, std::int64_t column) {
    return static_cast<Number>(tensor.at(row, column));
  };
  const auto bf16 = [](Number value) { return stored(DType::kBF16, value); };
  const std::vector<Number> sums = product<Number>(tile);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::int64_t row = tile.row + static_cast<std::int64_t>(i) / tile.columns;
    const std::int64_t column = tile.column + static_cast<std::int64_t>(i) % tile.columns;
    Number y = sums[i];
    if (has_column_scale(problem_.a)) {
      y *= element(tensors_.column_scale, 0, column);
    }
    if (problem_.row_scale) {
      y *= element(tensors_.row_scale, 0, row);
    }
    if (problem_.row_norm) {
      y = y * element(tensors_.row_norm, row, 0) +
          element(tensors_.row_norm, row, 1) * element(tensors_.column_sum, 0, column);
    }
    // Frameworks fuse the bias into the matrix product; each later step writes a separate tensor.
    switch (problem_.epilogue) {
      case GemmEpilogue::kBias:
        y += element(tensors_.bias, 0, column);
        break;
      case GemmEpilogue::kGelu: {
        const Number h = bf16(y + element(tensors_.bias, 0, column));
        y = bf16(static_cast<Number>(gelu_tanh(double{h})));
        break;
      }
      case GemmEpilogue::kResidual:
        y = bf16(y + element(tensors_.bias, 0, column)) + element(tensors_.residual, row, column);
        break;
      case GemmEpilogue::kPosition:
        y = bf16(y) + element(tensors_.position, row % problem_.tokens, column);
        break;
    }
    values[i] = double{y};
  }
}

void GemmWorkload::reference(const Tile& tile, std::span<double> values) const {
  compute<double>(tile, values);
}

void GemmWorkload::framework(const Tile& tile, std::span<double> values) const {
  compute<float>(tile, values);
  const OutputSpec spec = output();
  if (spec.block_scales) {
    round_in_blocks(tile, values, output_mistake_);
    return;
  }
  for (double& value : values) {
    value =
        (double{rounded(spec.type, value / spec.scale - spec.offset)} + spec.offset) * spec.scale;
  }
}

std::shared_ptr<const Workload> GemmWorkload::with_tensor(Tensor GemmTensors::* which,
                                                          const Tensor& tensor) const {
  return changed([&](GemmWorkload& copy) {
    copy.tensors_.*which = tensor;
    copy.gather_inputs();
  });
}

std::vector<Mutant> GemmWorkload::mutants() const {
  std::vector<Mutant> all;
  const auto add = [&](const char* name, Tensor GemmTensors::* which, const Tensor& tensor) {
    all.push_back({name, with_tensor(which, tensor)});
  };
  // Number of bytes or elements that copies and swizzles move as a unit.
  constexpr std::int64_t kUnit = 16;
  if (problem_.k >= 2 * kUnit) {
    add("permute K", &GemmTensors::b, tensors_.b.columns_swapped(0, kUnit, kUnit));
  }
  if (problem_.epilogue == GemmEpilogue::kPosition) {
    add("shift the position table by one row", &GemmTensors::position,
        tensors_.position.rows_moved(1));
  } else {
    add("skip bias", &GemmTensors::bias, tensors_.bias.filled(0.0));
  }
  if (problem_.epilogue == GemmEpilogue::kGelu) {
    all.push_back({"drop GELU", changed([](GemmWorkload& copy) {
                     copy.problem_.epilogue = GemmEpilogue::kBias;
                   })});
  }
  if (problem_.epilogue == GemmEpilogue::kResidual) {
    add("skip the residual", &GemmTensors::residual, tensors_.residual.filled(0.0));
  }
  if (has_column_scale(problem_.a)) {
    add("one scale for all columns", &GemmTensors::column_scale,
        tensors_.column_scale.filled(tensors_.column_scale.at(0, 0)));
  }
  if (problem_.row_scale) {
    add("one scale for all rows", &GemmTensors::row_scale, tensors_.row_scale.filled(1.0));
  }
  if (problem_.row_norm) {
    const Tensor& norm = tensors_.row_norm;
    add("norms of the neighbouring row", &GemmTensors::row_norm, norm.rows_moved(1));
    add("scale and shift exchanged", &GemmTensors::row_norm, norm.columns_swapped(0, 1, 1));
    add("skip the shift", &GemmTensors::column_sum, tensors_.column_sum.filled(0.0));
    all.push_back(
        {"drop the norm", changed([](GemmWorkload& copy) { copy.problem_.row_norm = false; })});
  }
  std::ranges::move(block_mutants(), std::back_inserter(all));
  return all;
}

std::vector<Mutant> GemmWorkload::block_mutants() const {
  std::vector<Mutant> all;
  if (problem_.output == DType::kMXFP8) {
    for (const auto& [name, mistake] : kScaleMistakes) {
      all.push_back(
          mutant_with(fmt::format("result: {}", name), &GemmWorkload::output_mistake_, mistake));
    }
  }
  const ops::BlockScales layout{problem_.m, problem_.k};
  if (problem_.a != DType::kMXFP8 || layout.blocks() < ops::kAtomBlocks) {
    return all;
  }
  const Tensor& scales = tensors_.a_scales;
  // Adds a mutant in which each block uses the scale at the position that place_of() returns.
  const auto add = [&](const char* name, const auto& place_of, int powers = 0) {
    std::vector<double> changed(static_cast<std::size_t>(scales.count()));
    for (std::int64_t row = 0; row < problem_.m; ++row) {
      for (std::int64_t block = 0; block < layout.blocks(); ++block) {
        const std::int64_t from = place_of(row, block);
        changed[static_cast<std::size_t>(layout.place(row, block))] =
            scales.at(from / ops::kAtomBytes, from % ops::kAtomBytes) + powers;
      }
    }
    all.push_back(
        {name, with_tensor(&GemmTensors::a_scales,
                           Tensor::from_values(scales.name(), scales.type(), scales.rows(),
                                               scales.columns(), changed))});
  };
  add("scale of the neighbouring block", [&](std::int64_t row, std::int64_t block) {
    return layout.place(row, (block + 1) % layout.blocks());
  });
  add("scales of the neighbouring row", [&](std::int64_t row, std::int64_t block) {
    return layout.place((row + 1) % problem_.m, block);
  });
  add(
      "scale off by a factor of two",
      [&](std::int64_t row, std::int64_t block) { return layout.place(row, block); }, 1);
  add("scales row by row, not in atoms",
      [&](std::int64_t row, std::int64_t block) { return row * layout.blocks() + block; });
  add("scales applied to blocks of 16",
      [&](std::int64_t row, std::int64_t block) { return layout.place(row, block / 2); });
  return all;
}

// The task applies bias and norms in torch's order; a kernel may combine them in other ways.
TorchTask GemmWorkload::torch_task() const {
  if (problem_.a == DType::kMXFP8 || problem_.output == DType::kMXFP8) {
    return {.why_not = "plain torch has no block-scaled types"};
  }
  TorchTask task;
  std::string& lines = task.forward;
  const std::string bf16 = "torch.bfloat16";
  task.input(tensors_.a);
  task.weight(tensors_.b, problem_.b);
  const bool position = problem_.epilogue == GemmEpilogue::kPosition;
  if (position) {
    task.weight(tensors_.position, tensors_.position.type());
  } else {
    task.weight(tensors_.bias, is_one_byte(problem_.a) ? DType::kF32 : problem_.a);
  }
  if (is_one_byte(problem_.a)) {
    task.weight(tensors_.column_scale, DType::kF32);
    lines +=
        "wide = self.column_scale.dtype  # plain torch cannot multiply one-byte types\n"
        "y = a.to(wide) @ self.b.to(wide).t() * self.column_scale\n";
    if (problem_.row_scale) {
      task.input(tensors_.row_scale, {problem_.m, 1});
      lines += "y = y * row_scale\n";
    }
    lines += fmt::format("y = (y{}).to({})\n", position ? "" : " + self.bias", bf16);
  } else {
    if (problem_.row_norm) {
      task.input(tensors_.row_norm);
      lines += "a = (a.to(row_norm.dtype) * row_norm[:, :1] + row_norm[:, 1:]).to(a.dtype)\n";
    }
    lines += fmt::format("y = F.linear(a, self.b{})\n", position ? "" : ", self.bias");
  }
  switch (problem_.epilogue) {
    case GemmEpilogue::kBias:
      break;
    case GemmEpilogue::kGelu:
      lines += "y = F.gelu(y, approximate=\"tanh\")\n";
      break;
    case GemmEpilogue::kResidual:
      task.input(tensors_.residual);
      lines += "y = y + residual\n";
      break;
    case GemmEpilogue::kPosition:
      lines += problem_.m % problem_.tokens == 0
                   ? fmt::format("y = (y.view(-1, {}, {}) + self.position).view({}, {})\n",
                                 problem_.tokens, problem_.n, problem_.m, problem_.n)
                   : fmt::format("y = y + self.position.repeat({}, 1)[:{}]\n",
                                 problem_.m / problem_.tokens + 1, problem_.m);
      break;
  }
  if (is_one_byte(problem_.output)) {
    const OutputSpec spec = output();
    lines += fmt::format("y = y / {} - {}\n", spec.scale, spec.offset);
    lines += problem_.output == DType::kI8 ? "y = y.round().clamp(-128, 127)\n"
                                           : "y = y.clamp(-448, 448)\n";
  }
  lines += fmt::format("return y.to(torch.{})", torch_name(problem_.output));
  return task;
}

// Checks that NaN propagates, which an epilogue that computes a maximum or minimum could break.
Poisoned GemmWorkload::poisoned() const {
  const bool floats = problem_.a == DType::kBF16 || number_type(problem_.a) == DType::kE4M3;
  if (problem_.output == DType::kI8 || !(floats || problem_.row_scale)) {
    return {};
  }
  const std::int64_t row = problem_.m / 2;
  const double nan = std::nan("");
  return {problem_.row_scale
              ? with_tensor(&GemmTensors::row_scale, tensors_.row_scale.with_value(0, row, nan))
              : with_tensor(&GemmTensors::a, tensors_.a.with_value(row, problem_.k - 1, nan)),
          row};
}

double GemmWorkload::flops() const {
  return 2.0 * static_cast<double>(problem_.m) * static_cast<double>(problem_.n) *
         static_cast<double>(problem_.k);
}

Smoke GemmWorkload::smoke() const {
  constexpr double kUniform = 1.5;
  constexpr std::int64_t kCount = 1024;
  const double each = kUniform * kUniform * static_cast<double>(problem_.k);
  if (problem_.epilogue != GemmEpilogue::kPosition || problem_.a != DType::kE4M3 ||
      problem_.row_scale || problem_.m * problem_.n < kCount ||
      double{rounded(problem_.output, each)} != each) {
    return {};
  }
  const auto uniform = [](GemmWorkload& copy) {
    const GemmProblem& problem = copy.problem_;
    copy.tensors_.a = Tensor::uniform("a", problem.a, problem.m, problem.k, kUniform);
    copy.tensors_.b = Tensor::uniform("b", problem.b, problem.n, problem.k, kUniform);
    copy.tensors_.position =
        Tensor::uniform("position", DType::kBF16, problem.tokens, problem.n, 0.0);
    copy.tensors_.column_scale = Tensor::uniform("column_scale", DType::kF32, 1, problem.n, 1.0);
    copy.gather_inputs();
  };
  return {changed(uniform), kCount, kCount * each};
}

}  // namespace fovea::lab
