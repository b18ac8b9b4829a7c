// Pillow-exact antialiased resize of RGB images, and the patch-major layout of the encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/stop.hpp"
#include "fovea/preprocessing.hpp"
#include "image/image.hpp"
#include "image/orientation.hpp"

namespace fovea::image {

/// Resizes to uint8 [height, width, 3], bit-identical to Image.resize() of Pillow 13: 22-bit
/// fixed-point weights, the horizontal pass first unless more than twice as many rows as columns
/// are lost, rounding to uint8 between the passes.
/// `out` holds height * width * 3 bytes. Thread-safe.
void resize(const ImageView& source, int height, int width, Resample filter,
            std::span<std::uint8_t> out);

/// The same for a source that is first rotated by `orientation`. Throws Interrupted if `stop` is
/// set.
void resize(const ImageView& source, Orientation orientation, int height, int width,
            Resample filter, std::span<std::uint8_t> out, StopFlag stop);

/// Returns the maximum number of bytes that such a resize allocates.
[[nodiscard]] std::size_t resize_memory(int source_width, int source_height,
                                        Orientation orientation, int height, int width,
                                        Resample filter);

/// Reorders uint8 [height, width, 3] into patches uint8 [(height/p) * (width/p), p, p, 3]:
/// patches row-major, each with its rows, columns and channels in image order. Pixels right of
/// and below the last whole patch are ignored, as by a `valid` convolution.
void patchify(std::span<const std::uint8_t> pixels, int height, int width, int patch,
              std::span<std::uint8_t> out);

}  // namespace fovea::image
