// NumPy's .npy format: headers written and read, arrays read part by part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor_view.hpp"
#include "io/file.hpp"

namespace fovea::io {

/// The header of a C-order little-endian array, padded so that the data starts at a multiple of 64.
/// Its length depends only on `row_digits`: all shapes whose first dimension has at most that many
/// digits give headers of one length, so that the number of rows can be written last.
/// DType: kU8, kF16 or kF32. Format 1.0 (NEP 1).
[[nodiscard]] std::string npy_header(DType dtype, const Shape& shape, int row_digits = 20);

/// Returns a header for elements with the NumPy type string `descr` ("<i4").
[[nodiscard]] std::string npy_header(std::string_view descr, const Shape& shape,
                                     int row_digits = 20);

/// The header of an array with elements of any type.
struct NpyHead {
  std::string descr;
  Shape shape;
  std::size_t data_offset = 0;
};

struct NpyInfo {
  DType dtype = DType::kF32;
  Shape shape;
  std::size_t data_offset = 0;
};

/// Longest header that is read, including the bytes before it. NumPy's own are under 200 bytes, and
/// it refuses those over 10,000.
inline constexpr std::size_t kMaxNpyHeadBytes = std::size_t{64} << 10;

/// Parses a header (formats 1.0, 2.0, 3.0) of a C-order array; throws fovea::Error with the reason
/// for others. `head`: the file's first kMaxNpyHeadBytes bytes, or all of them.
[[nodiscard]] NpyHead parse_npy_head(std::span<const std::byte> head, std::uint64_t file_bytes);

/// Parses the header of a C-order array of |u1, <f2 or <f4. Throws fovea::Error with the reason for
/// others, and when the file's length does not match the header.
[[nodiscard]] NpyInfo parse_npy(std::span<const std::byte> head, std::uint64_t file_bytes);

/// An open .npy file.
class NpyFile {
 public:
  /// Throws fovea::Error naming the path when it cannot be read or parsed.
  explicit NpyFile(const std::filesystem::path& path);

  [[nodiscard]] DType dtype() const { return info_.dtype; }
  [[nodiscard]] const Shape& shape() const { return info_.shape; }
  [[nodiscard]] const NpyInfo& info() const { return info_; }
  [[nodiscard]] const File& file() const { return file_; }

  /// Reads `out.size()` elements from index `first` on. T must match dtype().
  /// Throws fovea::Error naming the path when the file has become shorter, or its disk fails.
  template <typename T>
  void read(std::uint64_t first, std::span<T> out) const {
    file_.read_at(info_.data_offset + first * sizeof(T), std::as_writable_bytes(out));
  }

 private:
  File file_;
  NpyInfo info_;
};

}  // namespace fovea::io
