// The .npy header: a magic string, a length, and a Python dict literal.
#include "io/npy.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"

namespace fovea::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMaxRank = 32;  // the limit of NumPy 1

std::string_view npy_descr(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "|u1";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    default:
      fail("npy: arrays of type {} are not supported", to_string(dtype));
  }
}

DType npy_dtype(std::string_view descr) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32}) {
    if (descr == npy_descr(dtype)) {
      return dtype;
    }
  }
  fail("npy: type '{}' is not supported; use uint8, float16 or float32, little-endian",
       escape(descr));
}

// Parses the dict of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}

  NpyHead read() {
    std::optional<std::string_view> descr;
    std::optional<Shape> shape;
    bool has_order = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = read_string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = read_string();
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        if (!take_word("False")) {
          fail("npy: fortran_order must be False; save the array with numpy.ascontiguousarray");
        }
      } else if (key == "shape" && !shape) {
        shape = read_shape();
      } else {
        fail("npy: unexpected or repeated key '{}' in the header", escape(key));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!text_.empty()) {
      fail("npy: text after the header's closing brace");
    }
    if (!descr || !shape || !has_order) {
      fail("npy: the header lacks one of descr, fortran_order, shape");
    }
    return {.descr = std::string(*descr), .shape = *shape, .data_offset = 0};
  }

 private:
  void skip_space() {
    const std::size_t begin = text_.find_first_not_of(" \n\t");
    text_.remove_prefix(begin == std::string_view::npos ? text_.size() : begin);
  }
  bool take(char c) {
    skip_space();
    if (text_.empty() || text_.front() != c) {
      return false;
    }
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) {
      fail("npy: malformed header: expected '{}'", c);
    }
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) {
      return false;
    }
    text_.remove_prefix(word.size());
    return true;
  }
  std::string_view read_string() {
    skip_space();
    const char quote = text_.empty() ? '\0' : text_.front();
    const std::size_t end = quote == '\'' || quote == '"' ? text_.find(quote, 1) : 0;
    if (end == 0 || end == std::string_view::npos) {
      fail("npy: malformed header: expected a quoted string");
    }
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }
  Shape read_shape() {
    std::vector<std::int64_t> dims;
    expect('(');
    while (!take(')')) {
      skip_space();
      std::int64_t dim = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), dim);
      if (error != std::errc{} || dim < 0 || dims.size() == kMaxRank) {
        fail("npy: malformed shape in the header");
      }
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      dims.push_back(dim);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return Shape(std::move(dims));
  }

  std::string_view text_;
};

}  // namespace

std::string npy_header(DType dtype, const Shape& shape, int row_digits) {
  return npy_header(npy_descr(dtype), shape, row_digits);
}

std::string npy_header(std::string_view descr, const Shape& shape, int row_digits) {
  std::string dims;
  for (const std::int64_t dim : shape.dims()) {
    dims += fmt::format("{}, ", dim);
  }
  if (shape.rank() > 1) {
    dims.resize(dims.size() - 2);
  } else if (shape.rank() == 1) {
    dims.pop_back();
  }
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dims);
  // Like NumPy, reserves space for more digits of the first dimension, then pads to the alignment.
  const std::size_t first_digits = shape.rank() == 0 ? 0 : std::to_string(shape[0]).size();
  const std::size_t digits = std::max(first_digits, static_cast<std::size_t>(row_digits));
  const std::size_t prefix = kMagic.size() + 2 + 2;
  const std::size_t min_bytes = prefix + dict.size() + (digits - first_digits) + 1;
  const std::size_t header_bytes = (min_bytes + kAlignment - 1) / kAlignment * kAlignment;
  dict.resize(header_bytes - prefix - 1, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

NpyHead parse_npy_head(std::span<const std::byte> head, std::uint64_t file_bytes) {
  const std::string_view text = as_text(head);
  if (text.size() < 10 || !text.starts_with(kMagic)) {
    fail("npy: not a NumPy array: the file does not start with \\x93NUMPY");
  }
  const auto byte_at = [&](std::size_t index) {
    return static_cast<std::size_t>(static_cast<unsigned char>(text[index]));
  };
  const std::size_t version = byte_at(6);
  if (version < 1 || version > 3) {
    fail("npy: format version {} is unknown; 1 to 3 are supported", version);
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t prefix = 8 + length_bytes;
  if (text.size() < prefix) {
    fail("npy: the file ends inside its header");
  }
  std::size_t length = 0;
  for (std::size_t index = 0; index < length_bytes; ++index) {
    length |= byte_at(8 + index) << (8 * index);
  }
  if (length > file_bytes - prefix) {
    fail("npy: the header claims {} bytes but the file holds {}", length, file_bytes - prefix);
  }
  if (length > text.size() - prefix) {
    fail("npy: the header has {} bytes; at most {} are read", length, kMaxNpyHeadBytes - prefix);
  }
  NpyHead info = DictReader(text.substr(prefix, length)).read();
  info.data_offset = prefix + length;
  return info;
}

NpyInfo parse_npy(std::span<const std::byte> head, std::uint64_t file_bytes) {
  const NpyHead read = parse_npy_head(head, file_bytes);
  const NpyInfo info{
      .dtype = npy_dtype(read.descr), .shape = read.shape, .data_offset = read.data_offset};
  if (info.data_offset % size_of(info.dtype) != 0) {
    fail(
        "npy: the data starts at byte {}, which is not a multiple of the {} bytes of its {}; save "
        "it again with numpy.save",
        info.data_offset, size_of(info.dtype), to_string(info.dtype));
  }
  const std::uint64_t data_bytes = file_bytes - info.data_offset;
  const auto elements = static_cast<std::size_t>(info.shape.elements());
  if (elements > std::numeric_limits<std::size_t>::max() / size_of(info.dtype) ||
      elements * size_of(info.dtype) != data_bytes) {
    fail("npy: shape {} of {} does not match the {} bytes of data", info.shape.to_string(),
         to_string(info.dtype), data_bytes);
  }
  return info;
}

NpyFile::NpyFile(const std::filesystem::path& path) : file_(path) {
  std::vector<std::byte> head(std::min<std::uint64_t>(kMaxNpyHeadBytes, file_.size()));
  file_.read_at(0, head);
  info_ = with_path(path, [&] { return parse_npy(head, file_.size()); });
}

}  // namespace fovea::io
