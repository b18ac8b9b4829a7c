// The kernel that resizes a NaFlex model's position table, on the host: against the table that the
// CPU resizes.
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/dtype.hpp"
#include "machine/machine.hpp"
#include "ops/position.hpp"

#define FOVEA_ENTRY pixels_positions_on_the_host
#define __launch_bounds__(threads)
#define __grid_constant__
#include "kernels/pixels/positions.cu"
#undef __grid_constant__
#undef __launch_bounds__
#undef FOVEA_ENTRY

namespace fovea::pixels {
namespace {

/// Rows of all images, as the kernel makes them in `blocks` blocks.
std::vector<std::uint16_t> resized(const std::vector<float>& table, int side, int width,
                                   const std::vector<PatchGrid>& grids, std::uint32_t blocks) {
  std::vector<std::int32_t> starts{0};
  std::vector<std::int32_t> sizes;
  for (const PatchGrid& grid : grids) {
    starts.push_back(starts.back() + static_cast<std::int32_t>(grid.patches()));
    sizes.insert(sizes.end(), {grid.height, grid.width});
  }
  std::vector<std::uint16_t> output(static_cast<std::size_t>(starts.back() * width), 0x7fc0);
  const PositionParams params{.table = table.data(),
                              .starts = starts.data(),
                              .grids = sizes.data(),
                              .output = output.data(),
                              .rows = starts.back(),
                              .images = static_cast<std::int32_t>(grids.size()),
                              .side = side,
                              .width = width};
  gridDim.x = blocks;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    machine::run_block(block, kThreads, machine::Arrival::kLate,
                       [&] { pixels_positions_on_the_host(params); });
  }
  return output;
}

TEST(PositionsKernel, GivesEveryPatchOfEveryImageItsRow) {
  std::mt19937 random(11);
  for (const auto& [side, width] : {std::pair(8, 24), std::pair(16, 768), std::pair(1, 8)}) {
    std::uniform_real_distribution<float> draw(-2.0F, 2.0F);
    std::vector<float> table(static_cast<std::size_t>(side * side * width));
    for (float& value : table) {
      value = draw(random);
    }
    const std::vector<PatchGrid> grids{{7, 9}, {1, 1}, {1, 40}, {31, 1}, {side, side}, {2, 33}};
    const auto rows = resized(table, side, width, grids, 3);
    std::size_t row = 0;
    std::vector<float> expected(static_cast<std::size_t>(width));
    for (const PatchGrid& grid : grids) {
      const ops::ResizedPositions positions(table, side, width, grid);
      for (std::int64_t patch = 0; patch < grid.patches(); ++patch, ++row) {
        positions.row(patch, expected.data());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const float found = to_float(BFloat16{rows[row * expected.size() + i]});
          ASSERT_NEAR(found, expected[i], 1e-5F + std::abs(expected[i]) / 250)
              << grid.height << "x" << grid.width << " patch " << patch << " column " << i;
        }
      }
    }
    // An image's rows do not depend on the others, nor on how many blocks there are.
    const auto alone = resized(table, side, width, {grids[0]}, 1);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), rows.begin()));
  }
}

}  // namespace
}  // namespace fovea::pixels
