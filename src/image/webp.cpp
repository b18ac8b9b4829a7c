// WebP through libwebp: the first frame on a black canvas, alpha dropped.
// python-pillow@4e5f09f src/PIL/WebPImagePlugin.py, src/_webp.c.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <webp/decode.h>
#include <webp/demux.h>

#include "core/error.hpp"
#include "image/codecs.hpp"
#include "image/exif.hpp"

namespace fovea::image {
namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

class Chunk {
 public:
  Chunk(const WebPDemuxer* demuxer, const char* name) {
    found_ = WebPDemuxGetChunk(demuxer, name, 1, &iterator_) != 0;
  }
  ~Chunk() { WebPDemuxReleaseChunkIterator(&iterator_); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  [[nodiscard]] Bytes bytes() const {
    return found_ ? std::as_bytes(std::span(iterator_.chunk.bytes, iterator_.chunk.size)) : Bytes{};
  }

 private:
  WebPChunkIterator iterator_{};
  bool found_ = false;
};

class FirstFrame {
 public:
  explicit FirstFrame(const WebPDemuxer* demuxer) {
    found_ = WebPDemuxGetFrame(demuxer, 1, &frame_) != 0;
  }
  ~FirstFrame() { WebPDemuxReleaseIterator(&frame_); }
  FirstFrame(const FirstFrame&) = delete;
  FirstFrame& operator=(const FirstFrame&) = delete;

  [[nodiscard]] bool found() const { return found_; }
  const WebPIterator* operator->() const { return &frame_; }

 private:
  WebPIterator frame_{};
  bool found_ = false;
};

const char* reason(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "a feature that is not supported";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "truncated";
    default:
      return "broken bitstream";
  }
}

}  // namespace

Decoded decode_webp(Bytes bytes, std::int64_t max_pixels) {
  const WebPData data{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemuxPartial(&data, &state));
  if (!demuxer || state == WEBP_DEMUX_PARSE_ERROR || state == WEBP_DEMUX_PARSING_HEADER) {
    fail("WebP: broken or truncated header ({} bytes)", bytes.size());
  }
  const std::uint32_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const std::uint32_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  check_size("WebP", width, height, max_pixels);
  if (state != WEBP_DEMUX_DONE) {
    fail("WebP: truncated: {} bytes, and the header says there are more", bytes.size());
  }
  const FirstFrame frame(demuxer.get());
  if (!frame.found()) {
    fail("WebP: no frame");
  }
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) {
    fail("WebP: the library's version does not match its headers");
  }
  // The demuxer has checked that the frame lies inside the canvas; the frame's own header has not
  // been compared with it.
  const VP8StatusCode parsed =
      WebPGetFeatures(frame->fragment.bytes, frame->fragment.size, &config.input);
  if (parsed != VP8_STATUS_OK) {
    fail("WebP: {}", reason(parsed));
  }
  if (config.input.width != frame->width || config.input.height != frame->height) {
    fail("WebP: frame of {}x{} where its header says {}x{}", config.input.width,
         config.input.height, frame->width, frame->height);
  }
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
  const VP8StatusCode status = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) {
    fail("WebP: {}", reason(status));
  }
  const Chunk exif(demuxer.get(), "EXIF");
  const Chunk xmp(demuxer.get(), "XMP ");
  return {std::move(image), orientation_of(Metadata{.exif = exif.bytes(), .xmp = xmp.bytes()})};
}

}  // namespace fovea::image
