// Decodes images of all formats, and resizes them.
#include "image/decode.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "image/codecs.hpp"
#include "image/formats.hpp"
#include "image/raw.hpp"
#include "image/resize.hpp"
#include "image/row_resizer.hpp"

namespace fovea::image {
namespace {

Decoded decode_jpeg(Bytes bytes, Decoding& decoding, Orientation default_orientation = {}) {
  JpegReader reader(bytes, decoding, default_orientation);
  Image image(reader.width(), reader.height());
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * kChannels;
  std::vector<std::uint8_t*> rows(static_cast<std::size_t>(image.height));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row] = image.pixels.data() + row * row_bytes;
  }
  reader.read(rows.data(), image.height);
  return {std::move(image), reader.orientation()};
}

/// Reads the JPEG preview of a camera's raw file with `read_jpeg(bytes, orientation)`, where
/// `orientation` applies if the preview has none.
template <typename ReadJpeg>
auto read_raw(Bytes bytes, StopFlag stop, ReadJpeg read_jpeg) {
  const RawPreview preview = find_raw_preview(bytes, stop);
  try {
    return read_jpeg(preview.jpeg, preview.orientation);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    fail("RAW: its preview is unreadable: {}", error.what());
  }
}

Decoded decode_as(Format format, Bytes bytes, Decoding& decoding) {
  switch (format) {
    case Format::kJpeg:
      return decode_jpeg(bytes, decoding);
    case Format::kPng:
      return decode_png(bytes, decoding);
    case Format::kWebp:
      return decode_webp(bytes, decoding);
    case Format::kGif:
      return decode_gif(bytes, decoding);
    case Format::kBmp:
      return decode_bmp(bytes, decoding);
    case Format::kTiff:
      return decode_tiff(bytes, decoding);
    case Format::kHeif:
      return decode_heif(bytes, decoding);
    case Format::kRaw:
      break;
  }
  return read_raw(bytes, decoding.stop(), [&](Bytes jpeg, Orientation default_orientation) {
    return decode_jpeg(jpeg, decoding, default_orientation);
  });
}

/// Returns the part of `out` for the resized pixels.
std::span<std::uint8_t> pixel_span(const TargetSize& target, std::span<std::uint8_t> out) {
  return out.first(static_cast<std::size_t>(target.height) *
                   static_cast<std::size_t>(target.width) * kChannels);
}

/// Decodes a JPEG and resizes it row by row, without keeping the decoded image.
Resized stream_jpeg(Bytes bytes, Decoding& decoding, const Preprocessing& preprocessing,
                    std::span<std::uint8_t> out, Orientation default_orientation) {
  JpegReader reader(bytes, decoding, default_orientation);
  const Orientation orientation = decoding.effective_orientation(reader.orientation());
  const Size original = upright_size(reader.width(), reader.height(), orientation);
  const TargetSize target = target_size(preprocessing, original.height, original.width);
  RowResizer resizer({reader.width(), reader.height(), orientation, target.height, target.width,
                      preprocessing.resample},
                     pixel_span(target, out), decoding.stop());
  std::array<std::uint8_t*, kBandRows> rows{};
  for (int row = 0; row < reader.height(); row += kBandRows) {
    const int count = std::min(kBandRows, reader.height() - row);
    for (int index = 0; index < count; ++index) {
      rows[static_cast<std::size_t>(index)] = resizer.slot(index);
    }
    reader.read(rows.data(), count);
    resizer.feed(count);
  }
  return {.original = original, .pixels = target};
}

/// Runs `work`, and reports failed allocations as a lack of memory instead of an error in the
/// image.
template <typename Work>
auto run_reporting_bad_alloc(Bytes bytes, Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    fail_for_resources("not enough memory to decode an image of {} bytes; use fewer decode threads",
                       bytes.size());
  }
}

}  // namespace

Image decode(std::span<const std::byte> bytes, const DecodeOptions& options) {
  return run_reporting_bad_alloc(bytes, [&] {
    Decoding decoding(options);
    Decoded decoded = decode_as(recognise(bytes), bytes, decoding);
    Image image = oriented(std::move(decoded.image),
                           decoding.effective_orientation(decoded.orientation), options.stop);
    image.memory = decoding.memory();
    return image;
  });
}

Resized decode_resized(std::span<const std::byte> bytes, const Preprocessing& preprocessing,
                       const DecodeOptions& options, std::span<std::uint8_t> out) {
  const std::int64_t limit = max_target_pixels(preprocessing) * kChannels;
  if (limit < kChannels || !std::cmp_equal(out.size(), limit)) {
    fail("the output has {} bytes; expected {}, at least one pixel", out.size(), limit);
  }
  return run_reporting_bad_alloc(bytes, [&] {
    Decoding decoding(options, preprocessing);
    const auto stream = [&](Bytes jpeg, Orientation default_orientation) {
      return stream_jpeg(jpeg, decoding, preprocessing, out, default_orientation);
    };
    const auto resized = [&](const Decoded& decoded) {
      const Orientation orientation = decoding.effective_orientation(decoded.orientation);
      Size original = upright_size(decoded.image.width, decoded.image.height, orientation);
      original.lost_range = decoded.image.lost_range;
      const TargetSize target = target_size(preprocessing, original.height, original.width);
      resize(decoded.image, orientation, target.height, target.width, preprocessing.resample,
             pixel_span(target, out), options.stop);
      return Resized{.original = original, .pixels = target};
    };
    switch (const Format format = recognise(bytes)) {
      case Format::kJpeg:
        return stream(bytes, {});
      case Format::kRaw:
        return read_raw(bytes, options.stop, stream);
      default:
        return resized(decode_as(format, bytes, decoding));
    }
  });
}

Size decode_resized(std::span<const std::byte> bytes, int height, int width, Resample filter,
                    const DecodeOptions& options, std::span<std::uint8_t> out) {
  if (height < 1 || width < 1) {
    fail("cannot resize to {}x{}: sides must be at least 1", width, height);
  }
  return decode_resized(bytes, {.height = height, .width = width, .resample = filter}, options, out)
      .original;
}

}  // namespace fovea::image
