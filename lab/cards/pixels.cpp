// Cards of the copying kernels around the patch embedding, whose results are compared bit for bit.
#include "gpu/launch/pixels.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/cards/operator_workload.hpp"
#include "lab/cards/registry.hpp"
#include "ops/rounding.hpp"

namespace fovea::lab {
namespace {

/// Problem of one of two kernels, which converts rows of `width` pixels to rows of `stride` bf16
/// numbers, or repeats a row of `width` numbers `rows` times.
struct PixelsProblem {
  bool repeat = false;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;  // length of a converted row
};

std::string to_string(const PixelsProblem& problem) {
  return problem.repeat ? fmt::format("{} copies of {} bf16", problem.rows, problem.width)
                        : fmt::format("u8 [{},{}] - {} -> bf16, rows of {}", problem.rows,
                                      problem.width, ops::kPixelCentre, problem.stride);
}

Support can_run(const PixelsProblem& /*problem*/, const gpu::DeviceInfo& /*device*/) {
  return {};
}

class PixelsWorkload final : public OperatorWorkload<PixelsWorkload, PixelsProblem> {
 public:
  PixelsWorkload(const PixelsProblem& problem, std::uint64_t seed)
      : OperatorWorkload(problem), centre_(problem.repeat ? 0.0 : ops::kPixelCentre) {
    inputs_.push_back(
        problem.repeat ? Tensor::random("source", DType::kBF16, 1, problem.width, {0.1, 1.0}, seed)
                       : Tensor::random("pixels", DType::kU8, problem.rows, problem.width,
                                        {120.0, 60.0}, seed));
  }

  [[nodiscard]] OutputSpec output() const override {
    return {.rows = problem_.rows, .columns = problem_.repeat ? problem_.width : problem_.stride};
  }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& /*plan*/) const override {
    const gpu::DevicePtr input = operands.inputs[0];
    return {problem_.repeat ? gpu::repeat_launch(device.info(), input, operands.output,
                                                 problem_.width, problem_.rows)
                            : gpu::pixels_launch(device.info(), input, operands.output,
                                                 problem_.rows, problem_.width, problem_.stride)};
  }
  void reference(const Tile& tile, std::span<double> values) const override {
    auto value = values.begin();
    for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      for (std::int64_t column = tile.column; column < tile.column + tile.columns; ++column) {
        *value++ = column < problem_.width
                       ? inputs_[0].at(problem_.repeat ? 0 : row, column) - centre_
                       : 0.0;
      }
    }
  }
  void framework(const Tile& tile, std::span<double> values) const override {
    reference(tile, values);
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override {
    return {{"neighbouring columns swapped", with_input(0, inputs_[0].neighbours_swapped())},
            mutant_with("off by one", &PixelsWorkload::centre_, centre_ + 1.0)};
  }
  [[nodiscard]] TorchTask torch_task() const override {
    TorchTask task;
    task.input(inputs_[0]);
    task.forward = problem_.repeat
                       ? fmt::format("return source.repeat({}, 1)", problem_.rows)
                       : fmt::format("return F.pad(pixels.to(torch.bfloat16) - {}, (0, {}))",
                                     centre_, problem_.stride - problem_.width);
    return task;
  }
  [[nodiscard]] bool is_of_rows() const override { return true; }

 private:
  double centre_;  // subtracted from each pixel
};

Card pixels_card(std::string name, std::string operation, const std::vector<PixelsProblem>& checked,
                 const PixelsProblem& timed) {
  Card card{.name = std::move(name), .operation = std::move(operation), .first_arch = 80};
  const auto case_with = [](const PixelsProblem& problem) {
    return case_of<PixelsWorkload>(fmt::format("rows{}_width{}", problem.rows, problem.width),
                                   problem);
  };
  card.problem = [timed, case_with](ProblemFields& fields) {
    PixelsProblem problem = timed;
    fields.take("rows", problem.rows);
    const bool other =
        fields.take("width", problem.width, {.max = 1 << 20, .step = problem.repeat ? 8 : 1});
    if (!problem.repeat) {
      problem.stride = other ? (problem.width + 7) / 8 * 8 : problem.stride;
      fields.take("stride", problem.stride, {.min = problem.width, .max = 1 << 20, .step = 8});
    }
    require_size("output", problem.rows, std::max(problem.width, problem.stride));
    return case_with(problem).used({.mutants = problem.width > 1});
  };
  for (const PixelsProblem& problem : checked) {
    card.cases.push_back(case_with(problem).used({.mutants = problem.rows == 3, .small = true}));
  }
  card.cases.push_back(case_with(timed).used({.bench = true}));
  card.gates = {{.case_name = card.cases.back().name,
                 .ctas_per_sm = 8,
                 .ctas_reason =
                     "2,048 threads, each with 16 bytes in flight, hide a latency of 1 us "
                     "at the copy rate"}};
  card.tolerance = {.difference = 0.0, .tile_difference = 0.0};
  card.kernels = {{.kernel = card.name, .registers = 64, .shared_bytes = 0}};
  return card;
}

}  // namespace

std::vector<Card> pixels_cards() {
  const auto widen = [](std::int64_t rows, std::int64_t width, std::int64_t stride) {
    return PixelsProblem{.repeat = false, .rows = rows, .width = width, .stride = stride};
  };
  const auto repeat = [](std::int64_t rows, std::int64_t width) {
    return PixelsProblem{.repeat = true, .rows = rows, .width = width};
  };
  return {pixels_card("pixels_widen", "u8 pixels minus their centre, as bf16",
                      {widen(1, 16, 16), widen(3, 768, 768), widen(729, 588, 592), widen(50, 3, 8),
                       widen(13, 24, 32)},
                      widen(kTimedRows, 768, 768)),
          pixels_card("pixels_repeat", "the position table, repeated for every image",
                      {repeat(1, 8), repeat(3, 768), repeat(65, 1000)}, repeat(1184, 196 * 768))};
}

}  // namespace fovea::lab
