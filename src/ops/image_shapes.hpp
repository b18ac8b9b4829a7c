// Images with different numbers of tokens, one after the other.
#pragma once

#include <cstdint>

#include "core/address.hpp"

namespace fovea::ops {

/// Where each image lies in tensors [rows, ...] that hold several without gaps, in the memory of
/// the executor's device. Without addresses all images have the same number of rows.
struct ImageShapes {
  std::int64_t rows = 0;  // of all images together
  Address starts = 0;     // int32 (images + 1): the first row of each image, from 0, and `rows`
  Address grids = 0;      // int32 (images, 2): height and width in patches

  [[nodiscard]] bool differ() const { return starts != 0; }
};

}  // namespace fovea::ops
