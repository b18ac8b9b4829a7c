// Rounds rows to codes, and computes the lengths of the rounding errors.
#include "search/row_codes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/divide_up.hpp"
#include "search/cosine.hpp"
#include "search/dot_kernels.hpp"

namespace fovea::search {
namespace {

constexpr std::int64_t kStrideBytes = 64;
// The number of rows that may be read past the last one: a tile, or a vector of terms.
constexpr std::int64_t kRowsBeyond = 64;
constexpr double kUnit = 0x1p-24;
// The range of squared lengths in which underflow is negligible.
constexpr float kSmallest = 1e-24F;
constexpr float kLargest = 1e30F;
constexpr float kMinPeak = 1e-30F;
constexpr std::int64_t kSamples = 1024;

float rounded_up(double value) {
  return std::nextafter(static_cast<float>(value), std::numeric_limits<float>::infinity());
}

// Returns the direction of the mean of up to kSamples unit rows; zeros when the mean is zero.
std::vector<float> mean_direction(const Shards& shards, RowReader& reader) {
  const auto dimension = static_cast<std::size_t>(shards.dimension());
  std::vector<double> sum(dimension);
  const std::int64_t step = std::max<std::int64_t>(1, divide_up(shards.rows(), kSamples));
  for (std::int64_t row = 0; row < shards.rows(); row += step) {
    const std::vector<float> vector = reader.row(row);
    const double squared = squared_norm(vector);
    if (!std::isfinite(squared) || squared == 0) {
      continue;  // any direction gives right results
    }
    for (std::size_t index = 0; index < dimension; ++index) {
      sum[index] += static_cast<double>(vector[index]) / std::sqrt(squared);
    }
  }
  double squared = 0;
  for (const double value : sum) {
    squared += value * value;
  }
  std::vector<float> direction(dimension);
  if (squared > 0) {
    std::ranges::transform(sum, direction.begin(), [&](double value) {
      return static_cast<float>(value / std::sqrt(squared));
    });
  }
  return direction;
}

}  // namespace

bool RowCoder::can_code(std::int64_t dimension) {
  constexpr std::int64_t kLeast = 64;  // shorter rows are no longer than a row of codes
  constexpr std::int64_t kMost = 65536;
  return dimension >= kLeast && dimension <= kMost;
}

RowCoder::RowCoder(std::vector<float> direction)
    : direction_(std::move(direction)),
      stride_(divide_up(dimension(), kStrideBytes) * kStrideBytes),
      rounding_(static_cast<float>((static_cast<double>(dimension()) + 32) * kUnit)) {}

RowCoder::RowCoder(const Shards& shards, RowReader& reader)
    : RowCoder(mean_direction(shards, reader)) {}

void RowCoder::encode(const StoredRows& rows, std::int64_t count, std::uint8_t* codes,
                      OwnedTerms& terms, std::int64_t first) const {
  AlignedBuffer<float> memory(direction_.size());
  const std::span<float> row = memory.span();
  for (std::int64_t index = 0; index < count; ++index) {
    rows.copy(index, row);
    terms.set(static_cast<std::size_t>(first + index), encode_row(row, codes + index * stride_));
  }
}

OwnedTerms::Values RowCoder::encode_row(std::span<float> row, std::uint8_t* codes) const {
  std::fill(codes, codes + stride_, static_cast<std::uint8_t>(kCodeOffset));
  const RowSums sums = sums_of_row(row.data(), direction_.data(), row.size());
  // NOLINTNEXTLINE(readability-simplify-boolean-expr): NaN is no size either
  if (!(sums.square > kSmallest && sums.square < kLargest)) {
    const bool is_zero = std::ranges::all_of(row, [](float value) { return value == 0; });
    return {.error = is_zero ? rounding_ : std::numeric_limits<float>::infinity()};
  }
  const float inverse = 1.0F / std::sqrt(sums.square);
  const float peak = subtract(row.data(), sums.along, direction_.data(), row.size());
  const bool has_codes = peak > kMinPeak;
  const float scale = has_codes ? peak / kMaxCode : 0;
  const CodeSums coded =
      round_to_codes(row.data(), scale, has_codes ? kMaxCode / peak : 0, row.size(), codes);
  const double rest = std::sqrt(static_cast<double>(coded.rest)) * inverse;
  const double length =
      static_cast<double>(scale) * std::sqrt(static_cast<double>(coded.codes)) * inverse;
  const float along = sums.along * inverse;
  // The sums above have a relative error of (dimension + 2) units, half of it after the root;
  // `inverse` has half of it, too; each of the other steps, and each in an upper bound, has one.
  const double sizes = 2 * length + std::abs(static_cast<double>(along)) + rest + 1;
  return {.scale = scale * inverse,
          .along = along,
          .length = rounded_up(length * (1 + rounding_)),
          .error = rounded_up(rest + rounding_ * sizes)};
}

int QueryCodes::most_of(const RowCoder& coder) {
  constexpr std::int64_t kLargestCode = 255;
  return static_cast<int>(std::min<std::int64_t>(
      std::numeric_limits<std::int16_t>::max(),
      std::numeric_limits<std::int32_t>::max() / (kLargestCode * coder.stride())));
}

QueryCodes::QueryCodes(const RowCoder& coder, std::span<const double> unit, int greatest)
    : codes(unit.size() / static_cast<std::size_t>(coder.dimension()) *
            static_cast<std::size_t>(coder.stride())),
      offsets(codes.size() / static_cast<std::size_t>(coder.stride()) + kMaxColumns),
      terms(offsets.size()) {
  const std::span<const float> direction = coder.direction();
  const auto stride = static_cast<std::size_t>(coder.stride());
  for (std::size_t query = 0; (query + 1) * direction.size() <= unit.size(); ++query) {
    const std::span<const double> vector = unit.subspan(query * direction.size(), direction.size());
    double peak = 0;
    for (const double value : vector) {
      peak = std::max(peak, std::abs(value));
    }
    const auto scale = static_cast<float>(peak / greatest);
    double rest = 0;
    double along = 0;
    std::int32_t sum = 0;
    for (std::size_t index = 0; index < vector.size(); ++index) {
      const double code =
          std::clamp<double>(std::nearbyint(vector[index] / scale), -greatest, greatest);
      const double left = vector[index] - scale * code;
      rest += left * left;
      along += vector[index] * static_cast<double>(direction[index]);
      sum += static_cast<std::int32_t>(code);
      codes[query * stride + index] = static_cast<std::int16_t>(code);
    }
    offsets[query] = kCodeOffset * sum;
    constexpr double kDoubleRoundings = 1e-10;
    terms.set(query, {.scale = scale,
                      .along = static_cast<float>(along),
                      .length = rounded_up(std::sqrt(rest) + kDoubleRoundings),
                      .error = 0});
  }
}

RowCopy::RowCopy(const RowCoder& coder, std::int64_t rows)
    : stride(coder.stride()),
      codes(static_cast<std::size_t>((rows + kRowsBeyond) * coder.stride())),
      terms(static_cast<std::size_t>(rows + kRowsBeyond)) {}

void RowCopy::take(const RowCopy& others, std::int64_t count, std::int64_t first) {
  std::copy_n(others.codes_of(0), count * stride, codes_of(first));
  terms.take(others.terms, count, first);
}

std::uint64_t RowCopy::bytes_of(const RowCoder& coder, std::int64_t rows) {
  return static_cast<std::uint64_t>(rows + kRowsBeyond) *
         (static_cast<std::uint64_t>(coder.stride()) + 4 * sizeof(float));
}

}  // namespace fovea::search
