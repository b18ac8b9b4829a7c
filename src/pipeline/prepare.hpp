// Prepares an input for the model: reads and decodes it, resizes it and cuts it into patches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/tensor_view.hpp"
#include "fovea/preprocessing.hpp"
#include "pipeline/loader.hpp"

namespace fovea::pipeline {

/// The layout of the pixels of one image in memory: patches, uint8 [patches, patch, patch, 3], or
/// the row of an array.
struct PixelLayout {
  Preprocessing preprocessing;
  /// The side of a patch. 0 stands for the row of an array: uint8 [height, width, 3], or, for a
  /// NaFlex model, uint8 [max_patches, patch * patch * 3] with zeros after the image's patches.
  int patch = 0;

  /// Returns the number of bytes of the largest image.
  [[nodiscard]] std::size_t image_bytes() const;
  /// Returns the shape of a row of an array.
  [[nodiscard]] Shape row_shape() const;
};

/// A check of encoded images by the hash of their bytes, before they are decoded. It covers files
/// and members of archives, but not inputs that are pixels.
struct ContentCheck {
  bool sum = false;  ///< whether to fill Slot::sha256
  /// Returns whether an image with these bytes already has a row, so that it need not be decoded.
  /// Called from all workers. Empty: every image is decoded.
  std::function<bool(const std::string& sha256)> is_known = {};
};

/// Returns a factory of the functions that the workers of a Loader call for each input.
[[nodiscard]] std::function<Prepare()> make_prepare(const PixelLayout& layout,
                                                    const ContentCheck& check = {});

/// Fills an image with deterministic noise, which depends only on `number`.
void fill_synthetic(std::uint64_t number, std::span<std::uint8_t> pixels);

}  // namespace fovea::pipeline
