// Rounds results to MXFP8, correctly or with a mistake.
#include "lab/cards/block_rounding.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/block_scales.hpp"

namespace fovea::lab {

using ops::kScaleBlock;

void round_in_blocks(const ops::reference::Tile& tile, std::span<double> values,
                     ScaleMistake mistake) {
  const ops::BlockScales layout{tile.rows, tile.columns};
  const std::int64_t blocks = layout.blocks();
  std::vector<Float8E8M0> scales(static_cast<std::size_t>(layout.bytes()), ops::kNoBlock);
  const auto each_block = [&](const auto& body) {
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t first = block * kScaleBlock;
        body(row, block,
             values.subspan(static_cast<std::size_t>(row * tile.columns + first),
                            static_cast<std::size_t>(std::min(kScaleBlock, tile.columns - first))));
      }
    }
  };
  const auto index = [](std::int64_t place) { return static_cast<std::size_t>(place); };

  each_block([&](std::int64_t row, std::int64_t block, std::span<double> numbers) {
    float largest = 0.0F;
    const std::size_t scale_numbers =
        mistake == ScaleMistake::kHalfBlock ? index(kScaleBlock / 2) : numbers.size();
    for (const double value : numbers.first(std::min(scale_numbers, numbers.size()))) {
      largest = std::fmax(largest, std::abs(static_cast<float>(value)));
    }
    const Float8E8M0 scale = ops::block_scale(largest);
    for (double& value : numbers) {
      value = to_float(to_e4m3(static_cast<float>(value) / to_float(scale)));
    }
    scales[index(mistake == ScaleMistake::kRowByRow ? row * blocks + block
                                                    : layout.place(row, block))] = scale;
  });
  each_block([&](std::int64_t row, std::int64_t block, std::span<double> numbers) {
    const std::int64_t scale_block =
        mistake == ScaleMistake::kNeighbour ? (block + 1) % blocks : block;
    const double scale = to_float(scales[index(layout.place(row, scale_block))]);
    for (double& value : numbers) {
      value *= mistake == ScaleMistake::kPower ? 2.0 * scale : scale;
    }
  });
}

}  // namespace fovea::lab
