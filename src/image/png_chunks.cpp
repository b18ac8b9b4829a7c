// Follows Pillow's reading of a PNG's chunks step by step, because the same files must be refused.
// python-pillow@4e5f09f src/PIL/PngImagePlugin.py: PngStream, PngImageFile._open and load_end.
#include "image/png_chunks.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <zlib.h>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "image/exif.hpp"

namespace fovea::image {
namespace {

constexpr std::size_t kMaxChunkText = std::size_t{1} << 20;  // MAX_TEXT_CHUNK
constexpr std::size_t kMaxText = 64 * kMaxChunkText;         // MAX_TEXT_MEMORY
/// The limit on decompressed data in bytes. It also applies where Pillow has none: to profiles, and
/// to text without a keyword or with invalid UTF-8.
constexpr std::size_t kMaxInflated = 4 * kMaxText;

constexpr char kXmpKey[] = "XML:com.adobe.xmp";
constexpr char kRawExifKey[] = "Raw profile type exif";

/// Minimum lengths in bytes of chunks whose content is not checked.
constexpr std::pair<std::string_view, std::size_t> kMinBytes[] = {
    {"gAMA", 4}, {"cHRM", 32}, {"sRGB", 1}, {"pHYs", 9}};

const unsigned char* zlib_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// Returns the part of `text` before the first NUL, and removes both from `text`. Without a NUL,
/// returns all of `text`, leaves it empty, and sets `found` to false.
std::string_view split(std::string_view& text, bool& found) {
  const std::size_t end = text.find('\0');
  found = end != std::string_view::npos;
  const std::string_view first = text.substr(0, end);
  text = found ? text.substr(end + 1) : std::string_view{};
  return first;
}

class PngChunks {
 public:
  PngChunks(std::string_view file, StopFlag stop) : file_(file), stop_(stop) {}

  Orientation read() {
    constexpr std::size_t kSignature = 8;
    position_ = kSignature;
    if (read_before_pixels() && skip_pixels()) {
      read_after_pixels();
    }
    return orientation();
  }

 private:
  struct Chunk {
    std::string_view name;
    std::string_view content;  // shorter than `length` if the file is truncated
    std::size_t length = 0;    // according to the chunk's header
  };

  /// Returns the next chunk, if there is one, and moves `position_` past its content.
  std::optional<Chunk> next() {
    stop_.poll();
    constexpr std::size_t kHeader = 8;
    if (file_.size() - position_ < kHeader) {
      return std::nullopt;
    }
    Chunk chunk{file_.substr(position_ + 4, 4), {}, number(file_.substr(position_))};
    const bool is_name = std::all_of(chunk.name.begin(), chunk.name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (!is_name) {
      return std::nullopt;
    }
    position_ += kHeader;
    chunk.content = file_.substr(position_, chunk.length);
    position_ += chunk.content.size();
    return chunk;
  }

  static std::uint32_t number(std::string_view text) {
    std::uint32_t value = 0;
    for (std::size_t index = 0; index < 4; ++index) {
      value = value << 8 | static_cast<unsigned char>(text[index]);
    }
    return value;
  }

  /// Skips the checksum, which may be truncated.
  void skip_checksum() { position_ += std::min<std::size_t>(4, file_.size() - position_); }

  /// Reads the chunks before the pixels. Returns false when libpng will report the error.
  bool read_before_pixels() {
    for (;;) {
      const std::size_t start = position_;
      const std::optional<Chunk> chunk = next();
      if (!chunk || chunk->name == "IEND") {
        return false;
      }
      if (chunk->name == "IDAT") {
        if (frame_is_part_) {
          fail(
              "PNG: the first frame of the animation is smaller than the image; this is not "
              "supported");
        }
        has_default_image_ = frames_ > 0 && !sequence_;
        position_ = start;
        return true;
      }
      if (chunk->name == "fdAT") {
        fail("PNG: the animation's frames come before the image");
      }
      read_chunk(*chunk);
      check_checksum(*chunk);
    }
  }

  void check_checksum(const Chunk& chunk) {
    uLong sum = crc32(0, zlib_bytes(chunk.name), 4);
    for (std::string_view rest = chunk.content; !rest.empty();) {
      constexpr std::size_t kPiece = std::size_t{16} << 20;
      const std::string_view piece = rest.substr(0, kPiece);
      stop_.poll();
      sum = crc32(sum, zlib_bytes(piece), static_cast<uInt>(piece.size()));
      rest.remove_prefix(piece.size());
    }
    if (file_.size() - position_ < 4) {
      fail("PNG: truncated in chunk {}: {} bytes", chunk.name, file_.size());
    }
    if (number(file_.substr(position_)) != sum) {
      fail("PNG: wrong checksum of chunk {}", chunk.name);
    }
    skip_checksum();
  }

  /// Skips the chunks of pixels. Returns false when the file ends within them.
  bool skip_pixels() {
    for (;;) {
      const std::size_t start = position_;
      const std::optional<Chunk> chunk = next();
      if (chunk && chunk->name != "IDAT") {
        position_ = start;
        return true;
      }
      if (!chunk || chunk->content.size() < chunk->length) {
        return false;
      }
      skip_checksum();
    }
  }

  /// Reads the chunks after the pixels. Checksums are ignored, and the last chunk may be missing.
  void read_after_pixels() {
    const bool animated = frames_ + (has_default_image_ ? 1U : 0U) > 1;
    for (;;) {
      const std::optional<Chunk> chunk = next();
      if (!chunk || chunk->name == "IEND" || (chunk->name == "fcTL" && animated)) {
        return;
      }
      read_chunk(*chunk);
      skip_checksum();
    }
  }

  void read_chunk(const Chunk& chunk) {
    if (chunk.content.size() < chunk.length) {
      fail("PNG: truncated in chunk {}: {} bytes", chunk.name, file_.size());
    }
    const std::string_view name = chunk.name;
    if (name == "tEXt") {
      read_text(chunk.content);
    } else if (name == "zTXt") {
      read_compressed_text(chunk.content);
    } else if (name == "iTXt") {
      read_international_text(chunk.content);
    } else if (name == "eXIf") {
      exif_ = chunk.content;
    } else if (name == "iCCP") {
      read_profile(chunk.content);
    } else if (name == "acTL") {
      require_bytes(chunk, 8);
      const std::uint32_t frames = number(chunk.content);
      constexpr std::uint32_t kMaxFrames = 0x80000000;
      frames_ = frames_ > 0 || frames > kMaxFrames ? 0 : frames;
    } else if (name == "fcTL") {
      read_frame(chunk);
    } else if (name == "fdAT") {
      require_bytes(chunk, 4);
      check_sequence(number(chunk.content));
    } else if (name == "IHDR") {
      require_bytes(chunk, 13);
      width_ = number(chunk.content);
      height_ = number(chunk.content.substr(4));
      const auto color = static_cast<unsigned char>(chunk.content[9]);
      transparent_bytes_ = color == 0 ? 2 : color == 2 ? 6 : 0;
      if (chunk.content[11] != 0) {
        fail("PNG: filter method {} is unknown",
             static_cast<int>(static_cast<unsigned char>(chunk.content[11])));
      }
    } else if (name == "tRNS") {
      require_bytes(chunk, transparent_bytes_);
    }
    for (const auto& [other, bytes] : kMinBytes) {
      require_bytes(chunk, name == other ? bytes : 0);
    }
  }

  static void require_bytes(const Chunk& chunk, std::size_t bytes) {
    if (chunk.length < bytes) {
      fail("PNG: chunk {} has {} bytes; it needs at least {}", chunk.name, chunk.length, bytes);
    }
  }

  void read_frame(const Chunk& chunk) {
    require_bytes(chunk, 26);
    const std::uint32_t sequence = number(chunk.content);
    if (!sequence_ && sequence == 0) {
      sequence_ = sequence;
    } else {
      check_sequence(sequence);
    }
    const auto field = [&chunk](std::size_t offset) {
      return std::uint64_t{number(chunk.content.substr(offset))};
    };
    if (field(12) + field(4) > width_ || field(16) + field(8) > height_) {
      fail("PNG: a frame of the animation is larger than the image");
    }
    frame_is_part_ = field(4) != width_ || field(8) != height_;
  }

  void check_sequence(std::uint32_t sequence) {
    if (!sequence_ || sequence == 0 || *sequence_ != sequence - 1) {
      fail("PNG: frames of the animation are out of order");
    }
    sequence_ = sequence;
  }

  void read_text(std::string_view content) {
    bool found = false;
    const std::string_view key = split(content, found);
    if (key == "exif") {
      exif_ = content;
    }
    keep(key, content, content.size());
  }

  void read_compressed_text(std::string_view content) {
    bool found = false;
    const std::string_view key = split(content, found);
    if (!content.empty() && content[0] != 0) {
      fail("PNG: compression method {} in chunk zTXt is unknown",
           static_cast<int>(static_cast<unsigned char>(content[0])));
    }
    if (!content.empty()) {
      content.remove_prefix(1);
    }
    const std::string text = inflate(content).value_or(std::string());
    keep(key, text, text.size());
  }

  void read_international_text(std::string_view content) {
    bool found = false;
    const std::string_view key = split(content, found);
    if (!found || content.size() < 2) {
      return;
    }
    const bool compressed = content[0] != 0;
    const bool known_method = content[1] == 0;
    content.remove_prefix(2);
    const std::string_view language = split(content, found);
    if (!found) {
      return;
    }
    const std::string_view translated = split(content, found);
    if (!found || (compressed && !known_method)) {
      return;
    }
    std::string inflated;
    if (compressed) {
      std::optional<std::string> text = inflate(content);
      if (!text) {
        return;
      }
      inflated = std::move(*text);
      content = inflated;
    }
    if (key == kXmpKey) {
      xmp_ = content;
    }
    const std::optional<std::size_t> length = utf8_characters(content);
    if (length && utf8_characters(language) && utf8_characters(translated)) {
      keep(key, content, *length);
    }
  }

  void read_profile(std::string_view content) {
    const std::size_t name_end = content.find('\0');
    const std::size_t method = name_end == std::string_view::npos ? 0 : name_end + 1;
    if (method >= content.size()) {
      fail("PNG: chunk iCCP has no profile");
    }
    if (content[method] != 0) {
      fail("PNG: compression method {} in chunk iCCP is unknown",
           static_cast<int>(static_cast<unsigned char>(content[method])));
    }
    (void)inflate(content.substr(method + 1));
  }

  void keep(std::string_view key, std::string_view text, std::size_t length) {
    if (key.empty()) {
      return;
    }
    if (key == kXmpKey) {
      xmp_text_ = text;
    } else if (key == kRawExifKey) {
      raw_exif_ = text;
    }
    text_bytes_ += length;
    if (text_bytes_ > kMaxText) {
      fail("PNG: more than {} bytes of text", kMaxText);
    }
  }

  /// Returns the decompressed data, at most kMaxChunkText bytes; nothing if the data is corrupt.
  /// Truncated data is decompressed as far as possible.
  std::optional<std::string> inflate(std::string_view data) {
    z_stream stream{};
    if (inflateInit(&stream) != Z_OK) {
      throw std::bad_alloc();
    }
    constexpr std::size_t kInitialSize = std::size_t{1} << 14;
    std::string text;
    int status = Z_OK;
    stream.next_in = const_cast<Bytef*>(zlib_bytes(data));
    stream.avail_in = static_cast<uInt>(data.size());
    while (status == Z_OK && text.size() < kMaxChunkText && !data.empty()) {
      const std::size_t size = text.size();
      const std::size_t added = std::min(std::max(size, kInitialSize), kMaxChunkText - size);
      text.resize(size + added);
      stream.next_out = reinterpret_cast<Bytef*>(text.data() + size);
      stream.avail_out = static_cast<uInt>(added);
      status = ::inflate(&stream, Z_SYNC_FLUSH);
      text.resize(size + added - stream.avail_out);
      if (stream.avail_out > 0) {
        break;
      }
    }
    inflateEnd(&stream);
    if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    }
    if (status != Z_OK && status != Z_BUF_ERROR && status != Z_STREAM_END) {
      return std::nullopt;
    }
    if (status != Z_STREAM_END && stream.avail_in > 0) {
      fail("PNG: decompressed data too large: text or a profile of more than {} bytes in a chunk",
           kMaxChunkText);
    }
    inflated_bytes_ += text.size();
    if (inflated_bytes_ > kMaxInflated) {
      fail("PNG: decompressed data too large: more than {} bytes of text and profiles in all",
           kMaxInflated);
    }
    return text;
  }

  /// Returns the orientation, searched as by Pillow's getexif: in EXIF, XMP text, then XMP bytes.
  [[nodiscard]] Orientation orientation() const {
    const std::string raw = exif_ ? std::string() : from_raw_profile(raw_exif_);
    const std::string_view exif = exif_ ? *exif_ : std::string_view(raw);
    const std::string_view xmp = xmp_text_.empty() ? xmp_ : xmp_text_;
    return to_orientation(
        Metadata{.exif = std::as_bytes(std::span(exif)), .xmp = std::as_bytes(std::span(xmp))});
  }

  /// Decodes EXIF in ImageMagick's text form, "\nexif\n   <length>\n<hexadecimal>\n". Returns an
  /// empty string for any other text.
  static std::string from_raw_profile(std::string_view text) {
    for (int line = 0; line < 3; ++line) {
      const std::size_t end = text.find('\n');
      if (end == std::string_view::npos) {
        return {};
      }
      text.remove_prefix(end + 1);
    }
    std::string bytes;
    int digits = 0;
    int value = 0;
    for (const char& character : text) {
      int digit = 0;
      if (std::from_chars(&character, &character + 1, digit, 16).ec != std::errc{}) {
        continue;  // line breaks
      }
      value = value * 16 + digit;
      if (++digits % 2 == 0) {
        bytes.push_back(static_cast<char>(value));
        value = 0;
      }
    }
    return bytes;
  }

  std::string_view file_;
  StopFlag stop_;
  std::size_t position_ = 0;
  std::uint32_t width_ = 0;
  std::uint32_t height_ = 0;
  std::size_t transparent_bytes_ = 0;  // minimum length of chunk tRNS
  std::uint32_t frames_ = 0;
  std::optional<std::uint32_t> sequence_;  // sequence number of the animation's last chunk
  bool has_default_image_ = false;         // the image is not a frame of the animation
  bool frame_is_part_ = false;
  std::size_t text_bytes_ = 0;
  std::size_t inflated_bytes_ = 0;
  std::optional<std::string_view> exif_;
  std::string raw_exif_;
  std::string xmp_;
  std::string xmp_text_;
};

}  // namespace

Orientation read_png_chunks(std::span<const std::byte> bytes, StopFlag stop) {
  return PngChunks(as_text(bytes), stop).read();
}

}  // namespace fovea::image
