// JPEG through libjpeg-turbo, with the settings and the acceptance of Pillow's decoder.
// python-pillow@4e5f09f src/libImaging/JpegDecode.c, src/PIL/JpegImagePlugin.py.
#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs FILE
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <jpeglib.h>

#include "core/error.hpp"
#include "image/cmyk.hpp"
#include "image/codecs.hpp"
#include "image/exif.hpp"

namespace fovea::image {

/// What libjpeg's hooks need to reach. It stays where it is: libjpeg keeps pointers into it.
struct JpegState {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = {};
  Bytes bytes;
  Orientation orientation;
  int row = 0;
  std::vector<std::uint8_t> inks;  // one CMYK row

  JpegState() = default;
  ~JpegState() { jpeg_destroy_decompress(&codec); }
  JpegState(const JpegState&) = delete;
  JpegState& operator=(const JpegState&) = delete;

  /// Runs `step`, which calls libjpeg and owns nothing, so that an error may jump out of it.
  /// Returns false when there was an error.
  template <typename Step>
  bool run(Step step) {
    if (setjmp(jump) != 0) {
      return false;
    }
    step();
    return true;
  }

  [[noreturn]] void fail_broken() const {
    if (row == 0) {
      fail("JPEG: {}", message);
    }
    fail("JPEG: broken after {} of {} rows: {}", row, codec.output_height, message);
  }
};

namespace {

// The hooks that libjpeg calls. None may throw: there are C frames between them and us.

[[noreturn]] void error_exit(j_common_ptr codec) {
  auto* state = static_cast<JpegState*>(codec->client_data);
  codec->err->format_message(codec, state->message);
  std::longjmp(state->jump, 1);
}

// Warnings (corrupt data that libjpeg can step over) are accepted in silence, as Pillow does.
void emit_message(j_common_ptr, int) {}
void output_message(j_common_ptr) {}
void init_source(j_decompress_ptr) {}
void term_source(j_decompress_ptr) {}

// The whole file is in the buffer: to need more is to find it truncated.
boolean fill_input_buffer(j_decompress_ptr) {
  return FALSE;
}

void skip_input_data(j_decompress_ptr codec, long count) {
  if (count <= 0) {
    return;
  }
  // Past the end: leave nothing, so that the next read suspends.
  const auto skipped = std::min(static_cast<std::size_t>(count), codec->src->bytes_in_buffer);
  codec->src->next_input_byte += skipped;
  codec->src->bytes_in_buffer -= skipped;
}

/// EXIF segments joined, and the last XMP segment, as Pillow collects them.
Orientation read_orientation(const jpeg_decompress_struct& codec) {
  using std::string_view_literals::operator""sv;
  constexpr std::string_view kExif = "Exif\0\0"sv;
  constexpr std::string_view kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
  std::string exif;
  std::string_view xmp;
  for (const jpeg_marker_struct* marker = codec.marker_list; marker != nullptr;
       marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (data.starts_with(kExif)) {
      exif += data.substr(kExif.size());
    } else if (data.starts_with(kXmp)) {
      xmp = data.substr(kXmp.size());
    }
  }
  return orientation_of(
      Metadata{.exif = std::as_bytes(std::span(exif)), .xmp = std::as_bytes(std::span(xmp))});
}

}  // namespace

JpegReader::JpegReader(Bytes bytes, std::int64_t max_pixels)
    : state_(std::make_unique<JpegState>()) {
  JpegState& state = *state_;
  state.bytes = bytes;
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
  state.source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  state.source.bytes_in_buffer = bytes.size();

  int header = JPEG_SUSPENDED;
  const bool read = state.run([&] {
    jpeg_create_decompress(&codec);
    codec.src = &state.source;
    jpeg_save_markers(&codec, JPEG_APP0 + 1, 0xffff);
    header = jpeg_read_header(&codec, TRUE);
  });
  if (!read) {
    state.fail_broken();
  }
  if (header != JPEG_HEADER_OK) {
    fail("JPEG: truncated in its header: {} bytes", bytes.size());
  }
  check_size("JPEG", codec.image_width, codec.image_height, max_pixels);
  if (codec.num_components != 1 && codec.num_components != 3 && codec.num_components != 4) {
    fail("JPEG: {} components; only gray, colour and CMYK images are read", codec.num_components);
  }
  state.orientation = read_orientation(codec);
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
    JDIMENSION got = 0;
    const bool ok = state.run([&] {
      if (cmyk) {
        JSAMPROW row = state.inks.data();
        got = jpeg_read_scanlines(&state.codec, &row, 1);
      } else {
        got = jpeg_read_scanlines(&state.codec, const_cast<JSAMPARRAY>(rows + done),
                                  static_cast<JDIMENSION>(count - done));
      }
    });
    if (!ok) {
      state.fail_broken();
    }
    if (got == 0) {
      fail("JPEG: truncated after {} of {} rows ({} bytes)", state.row, state.codec.output_height,
           state.bytes.size());
    }
    if (cmyk) {
      // Pillow takes every CMYK JPEG for Adobe's, whose inks are stored inverted.
      inverted_cmyk_to_rgb(state.inks.data(), width(), rows[done]);
    }
    done += static_cast<int>(got);
    state.row += static_cast<int>(got);
  }
}

}  // namespace fovea::image
