// Checks that operators share.
#include "ops/checks.hpp"

#include <algorithm>

namespace fovea::ops {
namespace {

// Sizes must be smaller than this, so that products of two sizes do not overflow.
constexpr std::int64_t kMaxDim = std::int64_t{1} << 31;

}  // namespace

bool is_float(DType type) {
  return type != DType::kU8 && type != DType::kI8 && type != DType::kMXFP8;
}

bool takes_row_scales(DType type) {
  return size_of(type) == 1 && type != DType::kMXFP8;
}

bool is_dim(std::int64_t dim) {
  return dim > 0 && dim < kMaxDim;
}

Support valid_sizes(std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) {
    if (!is_dim(size)) {
      return {fmt::format("a size of {} is not between 1 and 2^31", size)};
    }
  }
  return {};
}

Support valid_if(bool condition, std::string_view why) {
  return condition ? Support{} : Support{std::string(why)};
}

void check_length(std::string_view what, std::size_t length, std::int64_t expected) {
  if (expected < 0 || length != static_cast<std::size_t>(expected)) {
    fail("{} has {} numbers, expected {}", what, length, expected);
  }
}

bool fits(const ConstTensorView& view, DType dtype, std::initializer_list<std::int64_t> shape) {
  const auto dims = view.shape.dims();
  return view.data != nullptr && view.dtype == dtype &&
         std::equal(dims.begin(), dims.end(), shape.begin(), shape.end());
}

void check_operand(const std::string& problem, std::string_view what, const ConstTensorView& view,
                   DType dtype, std::initializer_list<std::int64_t> shape) {
  const Shape expected(shape);
  if (view.data == nullptr) {
    fail("{}: the address of {} is null", problem, what);
  }
  if (view.dtype != dtype || view.shape != expected) {
    fail("{}: {} is {} {}, expected {} {}", problem, what, to_string(view.dtype),
         view.shape.to_string(), to_string(dtype), expected.to_string());
  }
}

}  // namespace fovea::ops
