// Reads the first frame of a WebP through libwebp, on a black canvas, and drops alpha.
// python-pillow@4e5f09f src/PIL/WebPImagePlugin.py, src/_webp.c.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include <webp/decode.h>
#include <webp/demux.h>

#include "core/error.hpp"
#include "core/released.hpp"
#include "core/text.hpp"
#include "image/codecs.hpp"
#include "image/exif.hpp"
#include "image/webp_tables.hpp"

namespace fovea::image {
namespace {

class Chunk {
 public:
  Chunk(const WebPDemuxer* demuxer, const char* name)
      : found_(WebPDemuxGetChunk(demuxer, name, 1, &iterator_) != 0) {}

  [[nodiscard]] Bytes bytes() const {
    return found_ ? std::as_bytes(std::span(iterator_.chunk.bytes, iterator_.chunk.size)) : Bytes{};
  }

 private:
  WebPChunkIterator iterator_{};
  Released<WebPChunkIterator, WebPDemuxReleaseChunkIterator> release_{&iterator_};
  bool found_;
};

const char* reason(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "a feature that is not supported";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "truncated";
    default:
      return "broken bitstream";
  }
}

struct RiffChunk {
  std::string_view name;
  Bytes content;  // may be truncated
};

constexpr std::size_t kChunkHeader = 8;

/// Returns the chunk at the start of `bytes`, and moves `bytes` past it. Requires kChunkHeader
/// bytes.
RiffChunk next_chunk(Bytes& bytes) {
  std::size_t size = 0;
  for (std::size_t byte = kChunkHeader; byte-- > kChunkHeader / 2;) {
    size = size << 8 | std::to_integer<std::size_t>(bytes[byte]);
  }
  const RiffChunk chunk{as_text(bytes.first(4)),
                        bytes.subspan(kChunkHeader, std::min(size, bytes.size() - kChunkHeader))};
  bytes = bytes.subspan(std::min(bytes.size(), kChunkHeader + size + size % 2));
  return chunk;
}

/// Limits the number of chunks: the demuxer allocates a record for each, which can be as short as 8
/// bytes in the file.
void check_chunks(Bytes bytes, StopFlag stop) {
  constexpr std::size_t kMaxChunks = 1'000'000;
  constexpr std::size_t kRiffHeader = 12;
  bytes = bytes.subspan(std::min(bytes.size(), kRiffHeader));
  for (std::size_t chunks = 1; bytes.size() >= kChunkHeader; ++chunks) {
    stop.poll();
    next_chunk(bytes);
    if (chunks > kMaxChunks) {
      fail("WebP: more than {} chunks", kMaxChunks);
    }
  }
}

/// Returns the bytes that libwebp allocates for a frame, without the RGB pixels.
std::uint64_t codec_memory(Bytes frame, const WebPBitstreamFeatures& features, StopFlag stop) {
  const auto width = static_cast<std::uint32_t>(features.width);
  const auto height = static_cast<std::uint32_t>(features.height);
  const std::uint64_t pixels = std::uint64_t{width} * height;
  // Lossless pixels take 4 bytes; up to three images of transforms have a sixteenth of the pixels.
  constexpr std::uint64_t kLosslessBytes = 5;
  constexpr std::size_t kLosslessHeader = 5;
  // A row of macroblocks with its context, and 16 output rows of a lossless image.
  std::uint64_t bytes = std::uint64_t{width} * 128 + (std::uint64_t{1} << 16);
  while (frame.size() >= kChunkHeader) {
    const RiffChunk chunk = next_chunk(frame);
    if (chunk.name == "VP8L" && chunk.content.size() > kLosslessHeader) {
      bytes += pixels * kLosslessBytes +
               webp_table_bytes(chunk.content.subspan(kLosslessHeader), width, height, stop);
    } else if (chunk.name == "ALPH" && !chunk.content.empty()) {
      // The alpha plane is stored uncompressed or as a lossless image.
      const bool is_lossless = (chunk.content[0] & std::byte{3}) == std::byte{1};
      bytes += pixels;
      bytes += is_lossless ? pixels * kLosslessBytes +
                                 webp_table_bytes(chunk.content.subspan(1), width, height, stop)
                           : 0;
    }
  }
  return bytes;
}

/// Decodes a frame. Large frames are passed to libwebp in pieces, between which the stop flag is
/// polled.
VP8StatusCode decode_frame(Bytes data, WebPDecoderConfig& config, const Decoding& decoding) {
  constexpr std::int64_t kMaxPixelsAtOnce = std::int64_t{1} << 22;  // about 50 ms
  constexpr std::size_t kPieces = 64;
  constexpr std::size_t kMinPiece = 4096;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(data.data());
  if (std::int64_t{config.input.width} * config.input.height <= kMaxPixelsAtOnce) {
    return WebPDecode(bytes, data.size(), &config);
  }
  const Released<WebPIDecoder, WebPIDelete> decoder(WebPIDecode(nullptr, 0, &config));
  if (!decoder) {
    return VP8_STATUS_OUT_OF_MEMORY;
  }
  const std::size_t piece = std::max(kMinPiece, data.size() / kPieces);
  VP8StatusCode status = VP8_STATUS_SUSPENDED;
  for (std::size_t end = 0; status == VP8_STATUS_SUSPENDED && end < data.size();) {
    decoding.poll();
    end = std::min(data.size(), end + piece);
    status = WebPIUpdate(decoder.get(), bytes, end);
  }
  // If trailing zeros of a stream are missing, libwebp can decode it only as a whole.
  const bool is_final = status == VP8_STATUS_OK || status == VP8_STATUS_OUT_OF_MEMORY;
  return is_final ? status : WebPDecode(bytes, data.size(), &config);
}

}  // namespace

Decoded decode_webp(Bytes bytes, Decoding& decoding) {
  check_chunks(bytes, decoding.stop());
  const WebPData data{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  const Released<WebPDemuxer, WebPDemuxDelete> demuxer(WebPDemuxPartial(&data, &state));
  if (!demuxer || state == WEBP_DEMUX_PARSE_ERROR || state == WEBP_DEMUX_PARSING_HEADER) {
    fail("WebP: broken or truncated header ({} bytes)", bytes.size());
  }
  const std::uint32_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const std::uint32_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  decoding.check_size("WebP", width, height);
  if (state != WEBP_DEMUX_DONE) {
    fail("WebP: truncated: {} bytes, fewer than the header says", bytes.size());
  }
  WebPIterator first{};
  const Released<WebPIterator, WebPDemuxReleaseIterator> frame(&first);
  if (WebPDemuxGetFrame(demuxer.get(), 1, frame.get()) == 0) {
    fail("WebP: there is no frame");
  }
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) {
    fail("WebP: the library's version does not match its headers");
  }
  const Bytes data_of_frame = std::as_bytes(std::span(frame->fragment.bytes, frame->fragment.size));
  // The demuxer has checked that the frame lies inside the canvas; the frame's own header has not
  // been compared with it.
  const VP8StatusCode parsed =
      WebPGetFeatures(frame->fragment.bytes, frame->fragment.size, &config.input);
  if (parsed != VP8_STATUS_OK) {
    fail("WebP: {}", reason(parsed));
  }
  if (config.input.width != frame->width || config.input.height != frame->height) {
    fail("WebP: the frame has {}x{} pixels, but its header says {}x{}", config.input.width,
         config.input.height, frame->width, frame->height);
  }
  const Chunk exif(demuxer.get(), "EXIF");
  const Chunk xmp(demuxer.get(), "XMP ");
  const Orientation orientation =
      to_orientation(Metadata{.exif = exif.bytes(), .xmp = xmp.bytes()});
  decoding.take_memory(
      {"WebP", static_cast<int>(width), static_cast<int>(height), orientation},
      pixel_bytes(width, height) + codec_memory(data_of_frame, config.input, decoding.stop()));
  Image image(static_cast<int>(width), static_cast<int>(height));
  if (frame->width != image.width || frame->height != image.height) {
    std::fill_n(image.pixels.data(), image.pixels.size(), std::uint8_t{0});
  }
  const std::size_t stride = std::size_t{width} * kChannels;
  const std::size_t start = static_cast<std::size_t>(frame->y_offset) * stride +
                            static_cast<std::size_t>(frame->x_offset) * kChannels;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = image.pixels.data() + start;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = image.pixels.size() - start;
  const VP8StatusCode status = decode_frame(data_of_frame, config, decoding);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) {
    fail("WebP: {}", reason(status));
  }
  return {std::move(image), orientation};
}

}  // namespace fovea::image
