// Rounds rows to codes, and computes bounds on the rounding errors.
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
// The number of rows that may be read past the last one: those of a tile or of a vector of terms.
constexpr std::int64_t kPaddingRows = 64;
constexpr double kUnitRoundoff = 0x1p-24;
// The range of squared lengths in which underflow is negligible.
constexpr float kMinSquare = 1e-24F;
constexpr float kMaxSquare = 1e30F;
constexpr float kMinPeak = 1e-30F;
constexpr std::int64_t kSamples = 1024;

float round_up(double value) {
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
      continue;  // results are correct for any direction
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
  constexpr std::int64_t kMinDimension = 64;  // codes of shorter rows would be padded to 64 bytes
  constexpr std::int64_t kMaxDimension = 65536;
  return dimension >= kMinDimension && dimension <= kMaxDimension;
}

RowCoder::RowCoder(std::vector<float> direction)
    : direction_(std::move(direction)),
      stride_(divide_up(dimension(), kStrideBytes) * kStrideBytes),
      rounding_(static_cast<float>((static_cast<double>(dimension()) + 32) * kUnitRoundoff)) {}

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
  // NOLINTNEXTLINE(readability-simplify-boolean-expr): NaN must take this branch
  if (!(sums.square > kMinSquare && sums.square < kMaxSquare)) {
    const bool is_zero = std::ranges::all_of(row, [](float value) { return value == 0; });
    return {.error = is_zero ? rounding_ : std::numeric_limits<float>::infinity()};
  }
  const float inverse = 1.0F / std::sqrt(sums.square);
  const float peak = subtract(row.data(), sums.projection, direction_.data(), row.size());
  const bool has_codes = peak > kMinPeak;
  const float scale = has_codes ? peak / kMaxCode : 0;
  const CodeSums code_sums =
      round_to_codes(row.data(), scale, has_codes ? kMaxCode / peak : 0, row.size(), codes);
  const double residual = std::sqrt(static_cast<double>(code_sums.residual)) * inverse;
  const double length =
      static_cast<double>(scale) * std::sqrt(static_cast<double>(code_sums.codes)) * inverse;
  const float projection = sums.projection * inverse;
  // Relative errors, in units of the roundoff: (dimension + 2) for the sums above, half of that
  // after the root and for `inverse`, and one for each other operation here and in an upper bound.
  const double magnitude = 2 * length + std::abs(static_cast<double>(projection)) + residual + 1;
  return {.scale = scale * inverse,
          .projection = projection,
          .length = round_up(length * (1 + rounding_)),
          .error = round_up(residual + rounding_ * magnitude)};
}

int QueryCodes::max_code(const RowCoder& coder) {
  constexpr std::int64_t kMaxStoredCode = 255;
  return static_cast<int>(std::min<std::int64_t>(
      std::numeric_limits<std::int16_t>::max(),
      std::numeric_limits<std::int32_t>::max() / (kMaxStoredCode * coder.stride())));
}

QueryCodes::QueryCodes(const RowCoder& coder, std::span<const double> unit, int max_code)
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
    const auto scale = static_cast<float>(peak / max_code);
    double residual = 0;
    double projection = 0;
    std::int32_t sum = 0;
    for (std::size_t index = 0; index < vector.size(); ++index) {
      const double code =
          std::clamp<double>(std::nearbyint(vector[index] / scale), -max_code, max_code);
      const double difference = vector[index] - scale * code;
      residual += difference * difference;
      projection += vector[index] * static_cast<double>(direction[index]);
      sum += static_cast<std::int32_t>(code);
      codes[query * stride + index] = static_cast<std::int16_t>(code);
    }
    offsets[query] = kCodeOffset * sum;
    constexpr double kRoundingMargin = 1e-10;
    terms.set(query, {.scale = scale,
                      .projection = static_cast<float>(projection),
                      .length = round_up(std::sqrt(residual) + kRoundingMargin),
                      .error = 0});
  }
}

RowCopy::RowCopy(const RowCoder& coder, std::int64_t rows)
    : stride(coder.stride()),
      codes(static_cast<std::size_t>((rows + kPaddingRows) * coder.stride())),
      terms(static_cast<std::size_t>(rows + kPaddingRows)) {}

void RowCopy::copy_from(const RowCopy& source, std::int64_t count, std::int64_t first) {
  std::copy_n(source.row_codes(0), count * stride, row_codes(first));
  terms.copy_from(source.terms, count, first);
}

std::uint64_t RowCopy::byte_size(const RowCoder& coder, std::int64_t rows) {
  return static_cast<std::uint64_t>(rows + kPaddingRows) *
         (static_cast<std::uint64_t>(coder.stride()) + 4 * sizeof(float));
}

}  // namespace fovea::search
