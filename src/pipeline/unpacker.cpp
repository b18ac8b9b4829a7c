// Unpackers: implemented with zlib, libbz2, liblzma and libzstd.
#include "pipeline/unpacker.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string_view>

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "core/error.hpp"
#include "core/released.hpp"
#include "core/text.hpp"

namespace fovea::pipeline {
namespace {

using std::string_view_literals::operator""sv;
using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

/// Sets the input and output buffers of a stream. The fields have the same names in zlib, libbz2
/// and liblzma.
template <typename Stream>
void set_buffers(Stream& stream, const In& in, const Out& out) {
  using Input = decltype(stream.next_in);
  using Output = decltype(stream.next_out);
  // zlib and libbz2 count bytes in unsigned int, and take the input as a pointer to non-const.
  stream.next_in = reinterpret_cast<Input>(const_cast<std::byte*>(in.data()));
  stream.avail_in = static_cast<unsigned>(std::min<std::size_t>(in.size(), UINT_MAX));
  stream.next_out = reinterpret_cast<Output>(out.data());
  stream.avail_out = static_cast<unsigned>(std::min<std::size_t>(out.size(), UINT_MAX));
}

/// Removes the bytes that the stream has processed from `in` and `out`.
template <typename Stream>
void advance_buffers(const Stream& stream, In& in, Out& out) {
  in = in.subspan(
      static_cast<std::size_t>(reinterpret_cast<const std::byte*>(stream.next_in) - in.data()));
  out = out.subspan(
      static_cast<std::size_t>(reinterpret_cast<std::byte*>(stream.next_out) - out.data()));
}

[[noreturn]] void fail_damaged(const char* format, const char* reason) {
  fail("the {} data is damaged{}{}", format, reason == nullptr ? "" : ": ",
       reason == nullptr ? "" : reason);
}

class Gzip final : public Unpacker {
 public:
  Gzip() {
    constexpr int kGzipFormat = 16 + MAX_WBITS;
    if (::inflateInit2(&stream_, kGzipFormat) != Z_OK) {
      fail_for_resources("not enough memory to unpack {}", format());
    }
  }
  ~Gzip() override { ::inflateEnd(&stream_); }

  bool step(In& in, Out& out) override {
    set_buffers(stream_, in, out);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    advance_buffers(stream_, in, out);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      fail_damaged(format(), stream_.msg);
    }
    return result == Z_STREAM_END;
  }
  [[nodiscard]] const char* format() const override { return "gzip"; }

 private:
  z_stream stream_{};
};

class Bzip2 final : public Unpacker {
 public:
  Bzip2() {
    if (::BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) {
      fail_for_resources("not enough memory to unpack {}", format());
    }
  }
  ~Bzip2() override { ::BZ2_bzDecompressEnd(&stream_); }

  bool step(In& in, Out& out) override {
    set_buffers(stream_, in, out);
    const int result = ::BZ2_bzDecompress(&stream_);
    advance_buffers(stream_, in, out);
    if (result != BZ_OK && result != BZ_STREAM_END) {
      fail_damaged(format(), nullptr);
    }
    return result == BZ_STREAM_END;
  }
  [[nodiscard]] const char* format() const override { return "bzip2"; }

 private:
  bz_stream stream_{};
};

class Xz final : public Unpacker {
 public:
  Xz() {
    constexpr std::uint64_t kMaxMemory = std::uint64_t{1} << 30;
    if (::lzma_stream_decoder(&stream_, kMaxMemory, 0) != LZMA_OK) {
      fail_for_resources("not enough memory to unpack {}", format());
    }
  }
  ~Xz() override { ::lzma_end(&stream_); }

  bool step(In& in, Out& out) override {
    set_buffers(stream_, in, out);
    const lzma_ret result = ::lzma_code(&stream_, LZMA_RUN);
    advance_buffers(stream_, in, out);
    if (result != LZMA_OK && result != LZMA_STREAM_END && result != LZMA_BUF_ERROR) {
      fail_damaged(format(),
                   result == LZMA_MEMLIMIT_ERROR ? "it needs more than 1 GiB of memory" : nullptr);
    }
    return result == LZMA_STREAM_END;
  }
  [[nodiscard]] const char* format() const override { return "xz"; }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class Zstd final : public Unpacker {
 public:
  Zstd() : stream_(::ZSTD_createDStream()) {
    if (!stream_) {
      fail_for_resources("not enough memory to unpack {}", format());
    }
  }

  bool step(In& in, Out& out) override {
    ZSTD_inBuffer source{in.data(), in.size(), 0};
    ZSTD_outBuffer target{out.data(), out.size(), 0};
    const std::size_t result = ::ZSTD_decompressStream(stream_.get(), &target, &source);
    in = in.subspan(source.pos);
    out = out.subspan(target.pos);
    if (::ZSTD_isError(result) != 0) {
      fail_damaged(format(), ::ZSTD_getErrorName(result));
    }
    return result == 0;
  }
  [[nodiscard]] const char* format() const override { return "zstd"; }

 private:
  Released<ZSTD_DStream, ZSTD_freeDStream> stream_;
};

}  // namespace

std::unique_ptr<Unpacker> make_unpacker(std::span<const std::byte> begin) {
  const std::string_view bytes = as_text(begin);
  if (bytes.starts_with("\x1f\x8b"sv)) {
    return std::make_unique<Gzip>();
  }
  if (bytes.starts_with("BZh"sv)) {
    return std::make_unique<Bzip2>();
  }
  if (bytes.starts_with("\xfd"
                        "7zXZ\0"sv)) {
    return std::make_unique<Xz>();
  }
  const bool is_skippable_frame = bytes.size() >= 4 && (bytes[0] & '\xf0') == '\x50' &&
                                  bytes.substr(1).starts_with("\x2a\x4d\x18"sv);
  if (is_skippable_frame || bytes.starts_with("\x28\xb5\x2f\xfd"sv)) {
    return std::make_unique<Zstd>();
  }
  return nullptr;
}

}  // namespace fovea::pipeline
