// Decoded images: 8-bit RGB, interleaved, top row first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/memory_pool.hpp"

namespace fovea::image {

inline constexpr int kChannels = 3;

/// Owned RGB pixels, uint8 [height, width, 3], rows without padding.
struct Image {
  int width = 0;
  int height = 0;
  MemoryPool::Lease memory;  // held as long as the pixels
  AlignedBuffer<std::uint8_t> pixels;
  bool lost_range = false;  // more than 8 bits per channel were clipped: see docs/images.md

  Image() = default;
  Image(int columns, int rows)
      : width(columns),
        height(rows),
        pixels(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows) * kChannels) {}
};

/// Borrowed RGB pixels, uint8 [height, width, 3], rows without padding.
struct ImageView {
  int width = 0;
  int height = 0;
  const std::uint8_t* pixels = nullptr;

  ImageView(int columns, int rows, const std::uint8_t* rgb)
      : width(columns), height(rows), pixels(rgb) {}
  // Implicit, so that functions on views take images.
  ImageView(const Image& image)
      : width(image.width), height(image.height), pixels(image.pixels.data()) {}
};

}  // namespace fovea::image
