// Cards of the kernels that convert results to another type, rounding each element once.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/cards/operator_workload.hpp"
#include "lab/cards/registry.hpp"
#include "ops/convert/gpu.hpp"

namespace fovea::lab {
namespace {

using gpu::ConvertProblem;

class ConvertWorkload final : public OperatorWorkload<ConvertWorkload, ConvertProblem> {
 public:
  ConvertWorkload(const ConvertProblem& problem, std::uint64_t seed) : OperatorWorkload(problem) {
    inputs_.push_back(
        Tensor::random("x", problem.input, problem.rows, problem.width, {0.1, 2.0}, seed));
  }

  [[nodiscard]] OutputSpec output() const override {
    return {.type = problem_.output, .rows = problem_.rows, .columns = problem_.width};
  }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& /*plan*/) const override {
    return {gpu::convert_launch(device.info(), problem_, operands.inputs[0], operands.output)};
  }
  void reference(const Tile& tile, std::span<double> values) const override {
    fill(tile, values, [](double value) { return value; });
  }
  void framework(const Tile& tile, std::span<double> values) const override {
    fill(tile, values, [this](double value) { return double{rounded(problem_.output, value)}; });
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override {
    std::vector<Mutant> list{
        {"neighbouring columns swapped", with_input(0, inputs_[0].neighbours_swapped())},
        {"rows shifted by one", with_input(0, inputs_[0].rows_moved(1))}};
    if (problem_.output == DType::kF16 && problem_.input == DType::kF32) {
      list.push_back(mutant_with("rounded to bf16 instead of f16", &ConvertWorkload::mistake_,
                                 Mistake::kBf16));
    }
    return list;
  }
  [[nodiscard]] TorchTask torch_task() const override {
    TorchTask task;
    task.input(inputs_[0]);
    task.forward = fmt::format("return x.to(torch.{})",
                               problem_.output == DType::kF16 ? "float16" : "float32");
    return task;
  }

 private:
  enum class Mistake : std::uint8_t { kNone, kBf16 };

  template <typename Round>
  void fill(const Tile& tile, std::span<double> values, const Round& round) const {
    auto value = values.begin();
    for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      for (std::int64_t column = tile.column; column < tile.column + tile.columns; ++column) {
        const double x = inputs_[0].at(row, column);
        *value++ = round(mistake_ == Mistake::kBf16 ? double{rounded(DType::kBF16, x)} : x);
      }
    }
  }

  Mistake mistake_ = Mistake::kNone;
};

Card convert_card(std::string name, DType input, DType output) {
  Card card{.name = std::move(name),
            .operation = fmt::format("results of {} as {}", to_string(input), to_string(output)),
            .first_arch = 80};
  const ConvertProblem timed{.rows = kTimedRows, .width = 768, .input = input, .output = output};
  const auto case_with = [](const ConvertProblem& problem) {
    return case_of<ConvertWorkload>(fmt::format("rows{}_width{}", problem.rows, problem.width),
                                    problem);
  };
  card.problem = [timed, case_with](ProblemFields& fields) {
    ConvertProblem problem = timed;
    fields.take("rows", problem.rows);
    fields.take("width", problem.width, {.max = 1 << 20, .step = 8});
    require_size("output", problem.rows, problem.width);
    return case_with(problem).used({.mutants = problem.rows > 1});
  };
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{1, 8}, {3, 768}, {729, 1152}, {65, 1000}}) {
    card.cases.push_back(case_with({.rows = rows, .width = width, .input = input, .output = output})
                             .used({.mutants = rows == 3, .small = true}));
  }
  card.cases.push_back(case_with(timed).used({.bench = true}));
  card.gates = {{.case_name = card.cases.back().name,
                 .ctas_per_sm = 8,
                 .ctas_reason =
                     "2,048 threads, each with 16 bytes or more in flight, hide a latency of 1 us "
                     "at the copy rate"}};
  card.tolerance = tolerance_of(output);
  if (output == DType::kF32) {  // bf16 converts to f32 exactly
    card.tolerance = {.difference = 0.0, .tile_difference = 0.0};
  }
  card.kernels = {{.kernel = card.name, .registers = 32, .shared_bytes = 0}};
  return card;
}

}  // namespace

std::vector<Card> convert_cards() {
  return {convert_card("convert_f16", DType::kBF16, DType::kF16),
          convert_card("convert_f32", DType::kBF16, DType::kF32),
          convert_card("convert_f32_f16", DType::kF32, DType::kF16)};
}

}  // namespace fovea::lab
