// Resizes whole images.
#include "image/resize.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/error.hpp"
#include "image/row_resizer.hpp"

namespace fovea::image {

namespace {

/// Returns the number of rows at the end of an image that are followed by fewer than kRowPadding
/// bytes. The passes read that far past a row, so they get padded copies of these rows.
int unpadded_rows(int width, int height) {
  const std::size_t row_bytes = static_cast<std::size_t>(width) * kChannels;
  return static_cast<int>(
      std::min<std::size_t>(static_cast<std::size_t>(height), kRowPadding / row_bytes + 1));
}

}  // namespace

void resize(const ImageView& source, int height, int width, Resample filter,
            std::span<std::uint8_t> out) {
  resize(source, {}, height, width, filter, out, {});
}

void resize(const ImageView& source, Orientation orientation, int height, int width,
            Resample filter, std::span<std::uint8_t> out, StopFlag stop) {
  if (source.width < 1 || source.height < 1 || height < 1 || width < 1) {
    fail("cannot resize {}x{} to {}x{}: sides must be at least 1", source.width, source.height,
         width, height);
  }
  const int unpadded = unpadded_rows(source.width, source.height);
  const int direct = source.height - unpadded;
  RowResizer resizer({source.width, source.height, orientation, height, width, filter}, out, stop,
                     std::min(unpadded, kBandRows));
  const std::size_t row_bytes = static_cast<std::size_t>(source.width) * kChannels;
  for (int row = 0; row < source.height; row += kBandRows) {
    const int count = std::min(kBandRows, source.height - row);
    SourceBand rows{};
    int copies = 0;
    for (int index = 0; index < count; ++index) {
      const std::uint8_t* pixels =
          source.pixels + static_cast<std::size_t>(row + index) * row_bytes;
      if (row + index >= direct && resizer.reads_padding()) {
        std::uint8_t* copy = resizer.slot(copies++);
        std::memcpy(copy, pixels, row_bytes);
        pixels = copy;
      }
      rows[static_cast<std::size_t>(index)] = pixels;
    }
    resizer.feed(rows, count);
  }
}

std::size_t resize_memory(int source_width, int source_height, Orientation orientation, int height,
                          int width, Resample filter) {
  return RowResizer::memory({source_width, source_height, orientation, height, width, filter},
                            std::min(unpadded_rows(source_width, source_height), kBandRows));
}

void patchify(std::span<const std::uint8_t> pixels, int height, int width, int patch,
              std::span<std::uint8_t> out) {
  if (patch < 1 || height < patch || width < patch) {
    fail("cannot divide {}x{} pixels into patches of {}x{} pixels", width, height, patch, patch);
  }
  const auto side = static_cast<std::size_t>(patch);
  const std::size_t image_row = static_cast<std::size_t>(width) * kChannels;
  const std::size_t patch_row = side * kChannels;
  const std::size_t down = static_cast<std::size_t>(height) / side;
  const std::size_t across = static_cast<std::size_t>(width) / side;
  if (pixels.size() != static_cast<std::size_t>(height) * image_row ||
      out.size() != down * across * side * patch_row) {
    fail("{}x{} pixels in patches of {} need {} bytes of input and {} of output, not {} and {}",
         width, height, patch, static_cast<std::size_t>(height) * image_row,
         down * across * side * patch_row, pixels.size(), out.size());
  }
  std::uint8_t* to = out.data();
  for (std::size_t top = 0; top < down * side; top += side) {
    for (std::size_t left = 0; left < across; ++left) {
      for (std::size_t row = top; row < top + side; ++row) {
        std::memcpy(to, pixels.data() + row * image_row + left * patch_row, patch_row);
        to += patch_row;
      }
    }
  }
}

}  // namespace fovea::image
