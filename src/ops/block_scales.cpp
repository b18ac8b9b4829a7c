// Rounds numbers to MXFP8, block by block.
#include "ops/block_scales.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace fovea::ops {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000U;
constexpr int kFractionBits = 23;
/// The maximum of e4m3 is 448 = 1.75 * 2^8. So the scale's exponent is the exponent of the largest
/// magnitude minus 8, or minus 7 if its fraction is above 1.75; in that case, adding this constant
/// to the bits carries into the exponent.
constexpr std::uint32_t kAbove448 = 0x1fffffU;
constexpr std::uint32_t kExponentOf448 = 8;

}  // namespace

Float8E8M0 block_scale(float largest) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(largest) & 0x7fffffffU;
  if (bits >= kInfinity) {
    return {255};
  }
  const std::uint32_t exponent = (bits + kAbove448) >> kFractionBits;
  return {static_cast<std::uint8_t>(std::max(exponent, kExponentOf448) - kExponentOf448)};
}

Float8E8M0 round_block(std::span<const float> values, std::span<Float8E4M3> numbers) {
  float largest = 0;
  for (const float value : values) {
    largest = std::isnan(value) ? largest : std::max(largest, std::abs(value));
  }
  const Float8E8M0 scale = block_scale(largest);
  const float inverse = 1.0F / to_float(scale);  // exact
  std::ranges::transform(values, numbers.begin(),
                         [&](float value) { return to_e4m3(value * inverse); });
  return scale;
}

RoundedBlocks round_to_blocks(std::span<const float> values, std::int64_t rows,
                              std::int64_t width) {
  const BlockScales layout{rows, width};
  RoundedBlocks rounded{
      .numbers = std::vector<Float8E4M3>(values.size()),
      .scales = std::vector<Float8E8M0>(static_cast<std::size_t>(layout.bytes()), kNoBlock)};
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t block = 0; block < layout.blocks(); ++block) {
      const std::int64_t column = block * kScaleBlock;
      const auto first = static_cast<std::size_t>(row * width + column);
      const auto count = static_cast<std::size_t>(std::min(kScaleBlock, width - column));
      rounded.scales[static_cast<std::size_t>(layout.place(row, block))] = round_block(
          values.subspan(first, count), std::span(rounded.numbers).subspan(first, count));
    }
  }
  return rounded;
}

}  // namespace fovea::ops
