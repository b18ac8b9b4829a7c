// Turns an input into the pixels that the model takes: reads, decodes, resizes, cuts into patches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/tensor_view.hpp"
#include "fovea/preprocessing.hpp"
#include "pipeline/loader.hpp"

namespace fovea::pipeline {

/// How the pixels of one image lie in memory: in patches, uint8 [patches, patch, patch, 3], or as
/// the row of an array.
struct PixelLayout {
  Preprocessing preprocessing;
  /// Side of a patch; 0 for the row of an array: uint8 [height, width, 3], or, of a NaFlex model,
  /// uint8 [max_patches, patch * patch * 3] with zeros after the image's own patches.
  int patch = 0;

  /// Bytes per image, of the largest one.
  [[nodiscard]] std::size_t image_bytes() const;
  /// The shape of an array's row.
  [[nodiscard]] Shape row_shape() const;
};

/// The contents of encoded images, compared before they are decoded. Members of archives are among
/// them; pixels are not.
struct ContentCheck {
  bool sum = false;  ///< whether to fill Slot::sha256
  /// Whether there is a row of an image with these bytes, so that it need not be decoded. Called
  /// from all workers; empty: never.
  std::function<bool(const std::string& sha256)> is_known = {};
};

/// Makes the function that a Loader's worker calls for each input.
[[nodiscard]] std::function<Prepare()> make_prepare(const PixelLayout& layout,
                                                    const ContentCheck& check = {});

/// Fills an image with deterministic noise: image `number` is the same in every run and on every
/// machine.
void fill_synthetic(std::uint64_t number, std::span<std::uint8_t> pixels);

}  // namespace fovea::pipeline
