// Checks that operators share.
#include "ops/checks.hpp"

#include <algorithm>

namespace fovea::ops {
namespace {

// Maximum size: products of two sizes up to this do not overflow.
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

Support valid_if(bool holds, std::string_view why) {
  return holds ? Support{} : Support{std::string(why)};
}

void check_length(std::string_view what, std::size_t have, std::int64_t want) {
  if (want < 0 || have != static_cast<std::size_t>(want)) {
    fail("{} holds {} numbers, {} expected", what, have, want);
  }
}

bool fits(const ConstTensorView& view, DType dtype, std::initializer_list<std::int64_t> shape) {
  const auto dims = view.shape.dims();
  return view.data != nullptr && view.dtype == dtype &&
         std::equal(dims.begin(), dims.end(), shape.begin(), shape.end());
}

void check_operand(const std::string& problem, std::string_view what, const ConstTensorView& view,
                   DType dtype, std::initializer_list<std::int64_t> shape) {
  const Shape want(shape);
  if (view.data == nullptr) {
    fail("{}: no memory for {}", problem, what);
  }
  if (view.dtype != dtype || view.shape != want) {
    fail("{}: {} is {} {}, {} {} expected", problem, what, to_string(view.dtype),
         view.shape.to_string(), to_string(dtype), want.to_string());
  }
}

}  // namespace fovea::ops
