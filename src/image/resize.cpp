// Resizing whole images.
#include "image/resize.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/error.hpp"
#include "image/row_resizer.hpp"

namespace fovea::image {

void resize(const ImageView& source, int height, int width, Resample filter,
            std::span<std::uint8_t> out) {
  if (source.width < 1 || source.height < 1 || height < 1 || width < 1) {
    fail("cannot resize {}x{} to {}x{}: sides must be at least 1", source.width, source.height,
         width, height);
  }
  RowResizer resizer(source.width, source.height, {}, height, width, filter, out);
  const std::size_t row_bytes = static_cast<std::size_t>(source.width) * kChannels;
  // The passes read kRowPadding past a row, so the last rows of the image go through a slot.
  const std::size_t unpadded_rows = kRowPadding / row_bytes + 1;
  const int direct = source.height - static_cast<int>(unpadded_rows);
  for (int row = 0; row < source.height; row += kBandRows) {
    const int count = std::min(kBandRows, source.height - row);
    SourceBand rows{};
    for (int index = 0; index < count; ++index) {
      const std::uint8_t* pixels =
          source.pixels + static_cast<std::size_t>(row + index) * row_bytes;
      if (row + index >= direct) {
        std::memcpy(resizer.slot(index), pixels, row_bytes);
        pixels = resizer.slot(index);
      }
      rows[static_cast<std::size_t>(index)] = pixels;
    }
    resizer.feed(rows, count);
  }
}

void patchify(std::span<const std::uint8_t> pixels, int height, int width, int patch,
              std::span<std::uint8_t> out) {
  if (patch < 1 || height < patch || width < patch) {
    fail("cannot cut {}x{} pixels into patches of {}", width, height, patch);
  }
  const auto side = static_cast<std::size_t>(patch);
  const std::size_t image_row = static_cast<std::size_t>(width) * kChannels;
  const std::size_t patch_row = side * kChannels;
  const std::size_t down = static_cast<std::size_t>(height) / side;
  const std::size_t across = static_cast<std::size_t>(width) / side;
  if (pixels.size() != static_cast<std::size_t>(height) * image_row ||
      out.size() != down * across * side * patch_row) {
    fail("{}x{} pixels in patches of {} take {} bytes to {}, not {} to {}", width, height, patch,
         static_cast<std::size_t>(height) * image_row, down * across * side * patch_row,
         pixels.size(), out.size());
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
