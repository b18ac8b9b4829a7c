// What a buffer holds in the end, beside what it should hold.
#include "lab/emulation/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fovea::emulation {
namespace {

bool is_near(const Comparison& how, double is, double wanted) {
  if (is == wanted || (std::isnan(is) && std::isnan(wanted))) {
    return true;
  }
  return std::isfinite(wanted) &&
         std::abs(is - wanted) <= how.absolute + how.relative * std::abs(wanted);
}

}  // namespace

std::string index_text(std::size_t index, const Shape& shape) {
  std::vector<std::size_t> at(shape.rank());
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    const auto size = static_cast<std::size_t>(shape[axis]);
    at[axis] = index % size;
    index /= size;
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

std::string Mismatch::text() const {
  return fmt::format("buffer {}: {} of {} elements are wrong, the first at {}: {}, not {}{}",
                     buffer, wrong, elements, index, is, wanted,
                     std::isnan(largest_error)
                         ? ""
                         : fmt::format("; the largest difference is {:.6g}", largest_error));
}

std::optional<Mismatch> compare(const Buffer& buffer, std::span<const std::byte> bytes) {
  const Comparison& how = *buffer.compare;
  const std::size_t size = size_of(buffer.type);
  Mismatch mismatch{.buffer = buffer.name, .elements = bytes.size() / size};
  for (std::size_t offset = 0; offset < bytes.size(); offset += size) {
    const auto is_bits = bytes.subspan(offset, size);
    if (std::ranges::equal(is_bits, std::span(how.wanted).subspan(offset, size))) {
      continue;
    }
    const double is = get(buffer.type, is_bits.data());
    const double wanted = get(buffer.type, &how.wanted[offset]);
    if (!how.is_exact && is_near(how, is, wanted)) {
      continue;
    }
    if (mismatch.wrong++ == 0) {
      mismatch.index = index_text(offset / size, buffer.shape);
      mismatch.is = text_of(buffer.type, is_bits.data());
      mismatch.wanted = text_of(buffer.type, &how.wanted[offset]);
    }
    const double error = std::abs(is - wanted);
    mismatch.largest_error = std::isnan(error) || std::isnan(mismatch.largest_error)
                                 ? std::numeric_limits<double>::quiet_NaN()
                                 : std::max(mismatch.largest_error, error);
  }
  return mismatch.wrong == 0 ? std::nullopt : std::optional(std::move(mismatch));
}

}  // namespace fovea::emulation
