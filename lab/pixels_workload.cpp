// What the kernels around the patch embedding copy, and mistakes in it.
#include "lab/pixels_workload.hpp"

#include <utility>

#include <fmt/format.h>

#include "gpu/launch/pixels.hpp"

namespace fovea::lab {

PixelsWorkload::PixelsWorkload(const PixelsProblem& problem, std::uint64_t seed)
    : problem_(problem), centre_(problem.repeat ? 0.0 : gpu::kPixelCentre) {
  inputs_.push_back(
      problem.repeat
          ? Tensor::random("source", DType::kBF16, 1, problem.width, {0.1, 1.0}, seed)
          : Tensor::random("pixels", DType::kU8, problem.rows, problem.width, {120.0, 60.0}, seed));
}

std::string PixelsWorkload::describe() const {
  return problem_.repeat ? fmt::format("{} copies of {} bf16", problem_.rows, problem_.width)
                         : fmt::format("u8 [{},{}] - {} -> bf16, rows of {}", problem_.rows,
                                       problem_.width, gpu::kPixelCentre, problem_.stride);
}

OutputSpec PixelsWorkload::output() const {
  OutputSpec spec;
  spec.rows = problem_.rows;
  spec.columns = problem_.repeat ? problem_.width : problem_.stride;
  return spec;
}

std::vector<gpu::Launch> PixelsWorkload::launches(gpu::Device& device, const Operands& operands,
                                                  std::string_view) const {
  const gpu::DevicePtr input = operands.inputs[0];
  return {problem_.repeat ? gpu::repeat_launch(device.info(), input, operands.output,
                                               problem_.width, problem_.rows)
                          : gpu::pixels_launch(device.info(), input, operands.output, problem_.rows,
                                               problem_.width, problem_.stride)};
}

void PixelsWorkload::reference(const Tile& tile, std::span<double> values) const {
  auto value = values.begin();
  for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
    for (std::int64_t column = tile.column; column < tile.column + tile.columns; ++column) {
      *value++ = column < problem_.width
                     ? inputs_[0].at(problem_.repeat ? 0 : row, column) - centre_
                     : 0.0;
    }
  }
}

std::vector<Mutant> PixelsWorkload::mutants() const {
  std::vector<Mutant> all;
  const auto add = [&](const char* name, Tensor input, double centre, bool launchable) {
    all.push_back(
        {name,
         std::shared_ptr<const Workload>(new PixelsWorkload(problem_, {std::move(input)}, centre)),
         launchable});
  };
  add("neighbouring columns swapped", inputs_[0].neighbours_swapped(), centre_, true);
  add("off by one", inputs_[0], centre_ + 1.0, false);
  return all;
}

double PixelsWorkload::bytes() const {
  return static_cast<double>(output().bytes()) + static_cast<double>(inputs_[0].bytes());
}

}  // namespace fovea::lab
