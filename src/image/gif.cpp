// Reads the first frame of a GIF through giflib, and converts its palette to RGB.
// python-pillow@4e5f09f src/PIL/GifImagePlugin.py.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gif_lib.h>

#include "core/error.hpp"
#include "core/released.hpp"
#include "image/codecs.hpp"

namespace fovea::image {
namespace {

using Palette = std::array<std::array<std::uint8_t, 3>, 256>;

struct Source {
  Bytes bytes;
  std::size_t offset = 0;
};

int read_source(GifFileType* gif, GifByteType* to, int count) {
  auto* source = static_cast<Source*>(gif->UserData);
  const std::size_t size =
      std::min(static_cast<std::size_t>(count), source->bytes.size() - source->offset);
  std::memcpy(to, source->bytes.data() + source->offset, size);
  source->offset += size;
  return static_cast<int>(size);
}

void close_gif(GifFileType* gif) {
  DGifCloseFile(gif, nullptr);
}

std::string reason(int code) {
  if (code == D_GIF_ERR_NOT_ENOUGH_MEM) {
    throw std::bad_alloc();
  }
  if (code == D_GIF_ERR_READ_FAILED || code == D_GIF_ERR_EOF_TOO_SOON) {
    return "truncated";
  }
  const char* text = GifErrorString(code);
  return text == nullptr ? "broken" : text;
}

/// Returns the palette of the frame, or else of the file. Indices past its end are black. Without a
/// palette, indices are gray levels.
Palette read_palette(const GifFileType& gif) {
  Palette palette{};
  const ColorMapObject* map = gif.Image.ColorMap != nullptr ? gif.Image.ColorMap : gif.SColorMap;
  bool gray = true;
  if (map != nullptr) {
    for (std::size_t index = 0; index < static_cast<std::size_t>(map->ColorCount); ++index) {
      const GifColorType& color = map->Colors[index];
      palette.at(index) = {color.Red, color.Green, color.Blue};
      gray = gray && color.Red == index && color.Green == index && color.Blue == index;
    }
  }
  if (gray) {
    for (std::size_t index = 0; index < palette.size(); ++index) {
      palette[index].fill(static_cast<std::uint8_t>(index));
    }
  }
  return palette;
}

/// Reads records up to the first image. Returns its transparent index, or 0: the index that fills
/// the canvas around a small frame.
std::uint8_t seek_first_frame(GifFileType* gif, StopFlag stop) {
  std::uint8_t transparent = 0;
  for (;;) {
    stop.poll();
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &record) == GIF_ERROR) {
      fail("GIF: {} before the first image", reason(gif->Error));
    }
    if (record == TERMINATE_RECORD_TYPE) {
      fail("GIF: there is no image");
    }
    if (record == IMAGE_DESC_RECORD_TYPE) {
      if (DGifGetImageDesc(gif) == GIF_ERROR) {
        fail("GIF: {} in the description of the first image", reason(gif->Error));
      }
      return transparent;
    }
    int code = 0;
    GifByteType* block = nullptr;
    int result = DGifGetExtension(gif, &code, &block);
    if (result != GIF_ERROR && code == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
        block[0] >= 4 && (block[1] & 1) != 0) {
      transparent = block[4];
    }
    while (result != GIF_ERROR && block != nullptr) {
      stop.poll();
      result = DGifGetExtensionNext(gif, &block);
    }
    if (result == GIF_ERROR) {
      fail("GIF: {} in an extension", reason(gif->Error));
    }
  }
}

}  // namespace

Decoded decode_gif(Bytes bytes, Decoding& decoding) {
  Source source{bytes};
  int error = 0;
  const Released<GifFileType, close_gif> gif(DGifOpen(&source, read_source, &error));
  if (!gif) {
    fail("GIF: {} header ({} bytes)", reason(error), bytes.size());
  }
  const std::uint8_t background = seek_first_frame(gif.get(), decoding.stop());
  const GifImageDesc& frame = gif->Image;
  // A frame that extends past the screen enlarges the image.
  const int width = std::max(gif->SWidth, frame.Left + frame.Width);
  const int height = std::max(gif->SHeight, frame.Top + frame.Height);
  decoding.check_size("GIF", width, height);
  decoding.take_memory({"GIF", width, height}, pixel_bytes(width, height));
  const Palette palette = read_palette(*gif);
  Image image(width, height);
  if (frame.Width != width || frame.Height != height) {
    std::uint8_t* to = image.pixels.data();
    for (int row = 0; row < height; ++row) {
      decoding.poll();
      for (int x = 0; x < width; ++x) {
        to = std::copy(palette[background].begin(), palette[background].end(), to);
      }
    }
  }

  struct Pass {
    int first;
    int step;
  };
  static constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  static constexpr Pass kPlain[] = {{0, 1}};
  const auto passes =
      frame.Interlace ? std::span<const Pass>(kInterlaced) : std::span<const Pass>(kPlain);
  std::vector<GifPixelType> indices(static_cast<std::size_t>(frame.Width));
  int rows = 0;
  for (const Pass& pass : passes) {
    for (int row = pass.first; row < frame.Height; row += pass.step) {
      decoding.poll();
      if (DGifGetLine(gif.get(), indices.data(), frame.Width) == GIF_ERROR) {
        fail("GIF: {} after {} of {} rows", reason(gif->Error), rows, frame.Height);
      }
      ++rows;
      std::uint8_t* to = image.pixels.data() + (static_cast<std::size_t>(frame.Top + row) *
                                                    static_cast<std::size_t>(width) +
                                                static_cast<std::size_t>(frame.Left)) *
                                                   kChannels;
      for (const GifPixelType index : indices) {
        to = std::copy(palette[index].begin(), palette[index].end(), to);
      }
    }
  }
  return {std::move(image), {}};
}

}  // namespace fovea::image
