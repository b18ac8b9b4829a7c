// The card of the kernel that resizes a NaFlex model's position table.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "fovea/preprocessing.hpp"
#include "gpu/launch/pixels.hpp"
#include "lab/cards/operator_workload.hpp"
#include "lab/cards/registry.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::lab {
namespace {

/// A position table (side, side, width), resized for images of these sizes.
struct ResizedTable {
  std::vector<PatchGrid> grids;
  std::int64_t side = 0;
  std::int64_t width = 0;

  [[nodiscard]] std::int64_t rows() const {
    std::int64_t sum = 0;
    for (const PatchGrid& grid : grids) {
      sum += grid.patches();
    }
    return sum;
  }
};

std::string to_string(const ResizedTable& problem) {
  return fmt::format("f32 [{0},{0},{1}] resized for {2} images -> bf16 [{3},{1}]", problem.side,
                     problem.width, problem.grids.size(), problem.rows());
}

Support can_run(const ResizedTable& /*problem*/, const gpu::DeviceInfo& /*device*/) {
  return {};
}

class PositionsWorkload final : public OperatorWorkload<PositionsWorkload, ResizedTable> {
 public:
  PositionsWorkload(const ResizedTable& problem, std::uint64_t seed) : OperatorWorkload(problem) {
    inputs_.push_back(Tensor::random("table", DType::kF32, problem.side * problem.side,
                                     problem.width, {0.1, 1.0}, seed));
    std::vector<std::int32_t> starts{0};
    std::vector<std::int32_t> sizes;
    for (const PatchGrid& grid : problem.grids) {
      starts.push_back(starts.back() + static_cast<std::int32_t>(grid.patches()));
      sizes.insert(sizes.end(), {grid.height, grid.width});
    }
    starts_.assign(starts.begin(), starts.end());
    inputs_.push_back(Tensor::raw("starts", std::as_bytes(std::span(starts))));
    inputs_.push_back(Tensor::raw("sizes", std::as_bytes(std::span(sizes))));
  }

  [[nodiscard]] OutputSpec output() const override {
    return {.rows = problem_.rows(), .columns = problem_.width};
  }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& /*plan*/) const override {
    const std::int64_t rows = problem_.rows();
    return {gpu::positions_launch(
        device.info(),
        {.images = std::ssize(problem_.grids),
         .rows = rows,
         .side = problem_.side,
         .width = problem_.width},
        operands.inputs[0],
        {.rows = rows, .starts = operands.inputs[1], .grids = operands.inputs[2]},
        operands.output)};
  }
  void reference(const Tile& tile, std::span<double> values) const override {
    fill<double>(tile, values);
  }
  void framework(const Tile& tile, std::span<double> values) const override {
    fill<float>(tile, values);
    std::ranges::transform(values, values.begin(),
                           [](double value) { return double{rounded(DType::kBF16, value)}; });
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override {
    constexpr auto kMember = &PositionsWorkload::mistake_;
    return {{"rows of the table shifted by one", with_input(0, inputs_[0].rows_moved(1))},
            mutant_with("height and width swapped", kMember, Mistake::kSwapped),
            mutant_with("position of the neighbouring patch", kMember, Mistake::kNextPatch),
            mutant_with("nearest position instead of interpolation", kMember, Mistake::kNearest)};
  }
  [[nodiscard]] TorchTask torch_task() const override {
    TorchTask task;
    task.input(inputs_[0], {problem_.side, problem_.side, problem_.width});
    std::string sizes;
    for (const PatchGrid& grid : problem_.grids) {
      sizes += fmt::format("({}, {}), ", grid.height, grid.width);
    }
    task.forward = fmt::format(
        "grid = table.permute(2, 0, 1)[None]\n"
        "rows = [F.interpolate(grid, size=size, mode=\"bilinear\", align_corners=False, "
        "antialias=True)[0] for size in [{}]]\n"
        "return torch.cat([row.flatten(1).t() for row in rows]).to(torch.bfloat16)",
        sizes);
    return task;
  }
  [[nodiscard]] double flops() const override {
    constexpr double kMinCells = 4;  // minimal number of cells of the table that are read per patch
    return 2 * kMinCells * static_cast<double>(problem_.rows() * problem_.width);
  }

 private:
  enum class Mistake : std::uint8_t { kNone, kSwapped, kNextPatch, kNearest };

  /// Returns the weights of the table's cells along one axis.
  [[nodiscard]] std::vector<double> weights(std::int64_t index, std::int64_t count) const {
    std::vector<double> result = ops::reference::interpolation(index, count, problem_.side);
    if (mistake_ == Mistake::kNearest) {
      const auto largest = std::ranges::max_element(result) - result.begin();
      std::ranges::fill(result, 0.0);
      result[static_cast<std::size_t>(largest)] = 1.0;
    }
    return result;
  }

  template <typename Number>
  void fill(const Tile& tile, std::span<double> values) const {
    auto to = values.begin();
    for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      const auto image = std::ranges::upper_bound(starts_, row) - starts_.begin() - 1;
      PatchGrid grid = problem_.grids[static_cast<std::size_t>(image)];
      if (mistake_ == Mistake::kSwapped) {
        std::swap(grid.height, grid.width);
      }
      std::int64_t patch = row - starts_[static_cast<std::size_t>(image)];
      if (mistake_ == Mistake::kNextPatch) {
        patch = (patch + 1) % grid.patches();
      }
      const std::vector<double> down = weights(patch / grid.width, grid.height);
      const std::vector<double> across = weights(patch % grid.width, grid.width);
      std::vector<Number> sums(static_cast<std::size_t>(tile.columns));
      for (std::int64_t cell = 0; cell < problem_.side * problem_.side; ++cell) {
        const auto weight =
            static_cast<Number>(down[static_cast<std::size_t>(cell / problem_.side)]) *
            static_cast<Number>(across[static_cast<std::size_t>(cell % problem_.side)]);
        for (std::int64_t i = 0; weight > 0 && i < tile.columns; ++i) {
          sums[static_cast<std::size_t>(i)] +=
              weight * static_cast<Number>(inputs_[0].at(cell, tile.column + i));
        }
      }
      to = std::copy(sums.begin(), sums.end(), to);
    }
  }

  std::vector<std::int64_t> starts_;
  Mistake mistake_ = Mistake::kNone;
};

/// Returns grids with the aspect ratios of photos, at most 256 patches each, repeated cyclically.
std::vector<PatchGrid> photos(std::int64_t count) {
  constexpr PatchGrid kPhotos[] = {{14, 18}, {18, 14}, {13, 19}, {19, 13},
                                   {12, 21}, {21, 12}, {16, 16}, {9, 28}};
  std::vector<PatchGrid> grids;
  grids.reserve(static_cast<std::size_t>(count));
  for (std::int64_t image = 0; image < count; ++image) {
    grids.push_back(kPhotos[static_cast<std::size_t>(image) % std::size(kPhotos)]);
  }
  return grids;
}

}  // namespace

std::vector<Card> positions_cards() {
  const auto case_with = [](const ResizedTable& problem) {
    return case_of<PositionsWorkload>(
        fmt::format("images{}_side{}_width{}", problem.grids.size(), problem.side, problem.width),
        problem);
  };
  Card card{.name = "pixels_positions",
            .operation = "the position table of a NaFlex model, resized for each image",
            .first_arch = 80};
  const std::vector<PatchGrid> odd{{7, 9}, {1, 1}, {1, 256}, {40, 2}, {16, 16}, {3, 5}};
  for (const ResizedTable& problem :
       {ResizedTable{odd, 16, 768}, ResizedTable{odd, 27, 1152}, ResizedTable{{{2, 3}}, 1, 8}}) {
    card.cases.push_back(case_with(problem).used({.mutants = problem.side == 16, .small = true}));
  }
  const ResizedTable timed{photos(384), 16, 768};
  card.cases.push_back(case_with(timed).used({.bench = true}));
  card.problem = [timed, case_with](ProblemFields& fields) {
    ResizedTable problem = timed;
    std::int64_t images = std::ssize(timed.grids);
    fields.take("images", images, {.max = 4096});
    fields.take("side", problem.side, {.max = 256});
    fields.take("width", problem.width, {.min = 8, .max = 4096, .step = 8});
    problem.grids = photos(images);
    require_size("output", problem.rows(), problem.width);
    return case_with(problem).used({.mutants = problem.side > 2});
  };
  card.gates = {{.case_name = card.cases.back().name,
                 .reason = "a patch reads four or more cells of the table, which come from the L2 "
                           "cache rather than device memory",
                 .reach = 0.1,
                 .min_occupancy = 0.5,
                 .ctas_per_sm = 4,
                 .ctas_reason = "1,024 threads hide the latency of the L2 cache"}};
  card.tolerance = tolerance_of(DType::kBF16);
  card.kernels = {{.kernel = "pixels_positions",
                   .registers = 64,
                   .shared_bytes = 0,
                   .sass_has = {"LDG.E.128", "STG.E.128"}}};
  return {card};
}

}  // namespace fovea::lab
