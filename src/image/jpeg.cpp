// Reads JPEG through libjpeg-turbo, with the settings of Pillow's decoder, and accepts the same
// files. python-pillow@4e5f09f src/libImaging/JpegDecode.c, src/PIL/JpegImagePlugin.py.
#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs FILE
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

#include "core/error.hpp"
#include "core/text.hpp"
#include "image/cmyk.hpp"
#include "image/codecs.hpp"
#include "image/decode.hpp"
#include "image/exif.hpp"

namespace fovea::image {

/// The state for libjpeg's callbacks. It must not move, because libjpeg keeps pointers into it.
struct JpegState {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = {};
  Bytes bytes;
  StopFlag stop;
  int max_scans = 0;
  bool too_many_scans = false;
  Orientation orientation;
  int row = 0;
  std::vector<std::uint8_t> inks;  // one CMYK row

  JpegState() = default;
  ~JpegState() { jpeg_destroy_decompress(&codec); }
  JpegState(const JpegState&) = delete;
  JpegState& operator=(const JpegState&) = delete;

  /// Runs `step`, which calls libjpeg; returns false after an error. libjpeg reports errors by
  /// longjmp, so `step` may own no resources.
  template <typename Step>
  bool run(Step step) {
    if (setjmp(jump) != 0) {
      return false;
    }
    step();
    return true;
  }

  [[noreturn]] void fail_broken() const {
    stop.poll();
    if (errors.msg_code == JERR_OUT_OF_MEMORY) {
      throw std::bad_alloc();
    }
    if (too_many_scans) {
      fail("JPEG: more than {} scans, which is the limit for an image of {}x{} pixels", max_scans,
           codec.image_width, codec.image_height);
    }
    if (row == 0) {
      fail("JPEG: {}", message);
    }
    fail("JPEG: broken after {} of {} rows: {}", row, codec.output_height, message);
  }
};

namespace {

// Callbacks for libjpeg. None may throw, since C frames lie between them and their caller.

[[noreturn]] void error_exit(j_common_ptr codec) {
  auto* state = static_cast<JpegState*>(codec->client_data);
  codec->err->format_message(codec, state->message);
  std::longjmp(state->jump, 1);
}

/// Jumps out of libjpeg if the stop flag is set.
void poll(j_common_ptr codec) {
  auto* state = static_cast<JpegState*>(codec->client_data);
  if (state->stop.is_set()) {
    std::longjmp(state->jump, 1);
  }
}

// Warnings (corrupt data that libjpeg can skip) are accepted silently, as Pillow does. libjpeg also
// traces every marker here, so that a file of nothing but markers can be stopped.
void emit_message(j_common_ptr codec, int) {
  poll(codec);
}

/// Called once for a row of blocks of each scan. Every scan of a file can be 100 bytes and costs
/// a pass over the whole image (libjpeg-turbo's report LJT-01-005), so their number is limited.
/// They are counted before the first is decoded, and here as libjpeg meets them in damaged files.
void on_progress(j_common_ptr common) {
  poll(common);
  auto* state = static_cast<JpegState*>(common->client_data);
  if (state->codec.input_scan_number > state->max_scans) {
    state->too_many_scans = true;
    std::longjmp(state->jump, 1);
  }
}

void output_message(j_common_ptr) {}
void init_source(j_decompress_ptr) {}
void term_source(j_decompress_ptr) {}

// Called when libjpeg needs more input: the file is truncated, since the buffer holds all of it.
boolean fill_input_buffer(j_decompress_ptr) {
  return FALSE;
}

void skip_input_data(j_decompress_ptr codec, long count) {
  if (count <= 0) {
    return;
  }
  // A skip past the end empties the buffer, so that the next read suspends.
  const auto skipped = std::min(static_cast<std::size_t>(count), codec->src->bytes_in_buffer);
  codec->src->next_input_byte += skipped;
  codec->src->bytes_in_buffer -= skipped;
}

constexpr std::uint8_t kApp1 = 0xe1;
constexpr std::uint8_t kStartOfImage = 0xd8;
constexpr std::uint8_t kEndOfImage = 0xd9;
constexpr std::uint8_t kStartOfScan = 0xda;

/// Calls `visit` with the marker and the content of each segment before the end of the image, in
/// the file's order, until it returns false.
template <typename Visit>
void for_each_segment(Bytes bytes, StopFlag stop, Visit visit) {
  const std::string_view file = as_text(bytes);
  const auto byte = [file](std::size_t position) {
    return static_cast<std::uint8_t>(file[position]);
  };
  std::size_t position = 2;
  for (;;) {
    stop.poll();
    // Skips bytes between markers, such as the data of scans, as libjpeg does.
    position = file.find('\xff', position);
    position = file.find_first_not_of('\xff', position);
    if (position == std::string_view::npos) {
      return;
    }
    const std::uint8_t marker = byte(position++);
    if (marker == kEndOfImage) {
      return;
    }
    const bool is_alone = marker <= 0x01 || (marker >= 0xd0 && marker <= kStartOfImage);
    if (is_alone) {
      continue;
    }
    if (file.size() - position < 2) {
      return;
    }
    const std::size_t size =
        std::size_t{byte(position)} << 8 | byte(position + 1);  // which counts its own bytes, too
    if (size < 2 || file.size() - position < size) {
      return;
    }
    if (!visit(marker, file.substr(position + 2, size - 2))) {
      return;
    }
    position += size;
  }
}

/// Whether the file has more than `limit` scans, which is known without decoding any.
bool has_more_scans(Bytes bytes, StopFlag stop, int limit) {
  int scans = 0;
  for_each_segment(bytes, stop, [&](std::uint8_t marker, std::string_view) {
    scans += marker == kStartOfScan ? 1 : 0;
    return scans <= limit;
  });
  return scans > limit;
}

/// Returns the orientation from the joined EXIF segments or from the last XMP segment, as in
/// Pillow.
Orientation read_orientation(Bytes bytes, StopFlag stop, Orientation default_orientation) {
  using std::string_view_literals::operator""sv;
  constexpr std::string_view kExif = "Exif\0\0"sv;
  constexpr std::string_view kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
  constexpr std::size_t kMaxExifBytes = std::size_t{16} << 20;
  std::string exif;
  std::string_view xmp;
  for_each_segment(bytes, stop, [&](std::uint8_t marker, std::string_view data) {
    if (marker != kApp1) {
      return marker != kStartOfScan;
    }
    if (data.starts_with(kExif) && exif.size() < kMaxExifBytes) {
      exif += data.substr(exif.empty() ? 0 : kExif.size());
    } else if (data.starts_with(kXmp)) {
      xmp = data.substr(kXmp.size());
    }
    return true;
  });
  return to_orientation(
      Metadata{.exif = std::as_bytes(std::span(exif)), .xmp = std::as_bytes(std::span(xmp))},
      default_orientation);
}

/// Returns the limit on scans for an image of this many pixels: that of libjpeg-turbo's programs
/// and fuzzers, and a lower one for large images, which would take minutes.
int max_scans(std::int64_t pixels) {
  constexpr std::int64_t kMaxScans = 500;
  constexpr std::int64_t kMinScans = 100;
  constexpr std::int64_t kMaxScannedPixels = kMinScans * kPillowsMaxPixels;
  return static_cast<int>(std::clamp(kMaxScannedPixels / pixels, kMinScans, kMaxScans));
}

/// Returns the bytes that libjpeg allocates: a few rows of blocks, or all coefficients when there
/// are several scans.
std::uint64_t codec_memory(jpeg_decompress_struct& codec) {
  constexpr std::uint64_t kRowBytes = 256;  // per column: rows of samples around the current one
  std::uint64_t bytes = codec.image_width * kRowBytes;
  if (jpeg_has_multiple_scans(&codec) == FALSE) {
    return bytes;
  }
  const auto whole = [](JDIMENSION blocks, int factor) {
    const auto step = static_cast<std::uint64_t>(factor);
    return (blocks + step - 1) / step * step;
  };
  for (const jpeg_component_info& component :
       std::span(codec.comp_info, static_cast<std::size_t>(codec.num_components))) {
    bytes += whole(component.width_in_blocks, component.h_samp_factor) *
             whole(component.height_in_blocks, component.v_samp_factor) * sizeof(JBLOCK);
  }
  return bytes;
}

}  // namespace

JpegReader::JpegReader(Bytes bytes, Decoding& decoding, Orientation default_orientation)
    : state_(std::make_unique<JpegState>()) {
  JpegState& state = *state_;
  state.bytes = bytes;
  state.stop = decoding.stop();
  jpeg_decompress_struct& codec = state.codec;
  codec.err = jpeg_std_error(&state.errors);
  codec.client_data = &state;
  state.errors.error_exit = error_exit;
  state.errors.emit_message = emit_message;
  state.errors.output_message = output_message;
  state.source.init_source = init_source;
  state.source.fill_input_buffer = fill_input_buffer;
  state.source.skip_input_data = skip_input_data;
  state.source.resync_to_restart = jpeg_resync_to_restart;
  state.source.term_source = term_source;
  state.progress.progress_monitor = on_progress;
  state.source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  state.source.bytes_in_buffer = bytes.size();

  int header = JPEG_SUSPENDED;
  const bool read = state.run([&] {
    jpeg_create_decompress(&codec);
    codec.src = &state.source;
    codec.progress = &state.progress;
    header = jpeg_read_header(&codec, TRUE);
  });
  if (!read) {
    state.fail_broken();
  }
  if (header != JPEG_HEADER_OK) {
    fail("JPEG: truncated in its header: {} bytes", bytes.size());
  }
  decoding.check_size("JPEG", codec.image_width, codec.image_height);
  if (codec.num_components != 1 && codec.num_components != 3 && codec.num_components != 4) {
    fail("JPEG: unsupported {} components; expected gray, colour or CMYK", codec.num_components);
  }
  state.orientation = read_orientation(bytes, state.stop, default_orientation);
  state.max_scans = max_scans(std::int64_t{codec.image_width} * codec.image_height);
  if (jpeg_has_multiple_scans(&codec) != FALSE &&
      has_more_scans(bytes, state.stop, state.max_scans)) {
    state.too_many_scans = true;
    state.fail_broken();
  }
  decoding.take_memory(
      {"JPEG", static_cast<int>(codec.image_width), static_cast<int>(codec.image_height),
       state.orientation},
      codec_memory(codec) +
          (decoding.is_resized() ? 0 : pixel_bytes(codec.image_width, codec.image_height)));
  codec.out_color_space = codec.num_components == 4 ? JCS_CMYK : JCS_RGB;
  if (codec.num_components == 4) {
    state.inks.resize(static_cast<std::size_t>(codec.image_width) * 4);
  }
  boolean started = FALSE;
  if (!state.run([&] { started = jpeg_start_decompress(&codec); })) {
    state.fail_broken();
  }
  if (started == FALSE) {  // a progressive file is read to its end first
    fail("JPEG: truncated: {} bytes end before the last scan does", bytes.size());
  }
}

JpegReader::~JpegReader() = default;

int JpegReader::width() const {
  return static_cast<int>(state_->codec.output_width);
}
int JpegReader::height() const {
  return static_cast<int>(state_->codec.output_height);
}
Orientation JpegReader::orientation() const {
  return state_->orientation;
}

void JpegReader::read(std::uint8_t* const* rows, int count) {
  JpegState& state = *state_;
  const bool cmyk = state.codec.out_color_space == JCS_CMYK;
  for (int done = 0; done < count;) {
    JDIMENSION rows_read = 0;
    const bool ok = state.run([&] {
      if (cmyk) {
        JSAMPROW row = state.inks.data();
        rows_read = jpeg_read_scanlines(&state.codec, &row, 1);
      } else {
        rows_read = jpeg_read_scanlines(&state.codec, const_cast<JSAMPARRAY>(rows + done),
                                        static_cast<JDIMENSION>(count - done));
      }
    });
    if (!ok) {
      state.fail_broken();
    }
    if (rows_read == 0) {
      fail("JPEG: truncated after {} of {} rows ({} bytes)", state.row, state.codec.output_height,
           state.bytes.size());
    }
    if (cmyk) {
      // Pillow assumes that every CMYK JPEG is from Adobe, which stores inks inverted.
      inverted_cmyk_to_rgb(state.inks.data(), width(), rows[done]);
    }
    done += static_cast<int>(rows_read);
    state.row += static_cast<int>(rows_read);
  }
}

}  // namespace fovea::image
