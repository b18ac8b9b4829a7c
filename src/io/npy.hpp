// NumPy's .npy format: headers written and read, arrays memory-mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "core/tensor_view.hpp"
#include "io/mapped_file.hpp"

namespace fovea::io {

/// Header of a C-order little-endian array, padded so that the data starts at a multiple of 64.
/// Its length depends only on `row_digits`: shapes whose first dimension has up to that many
/// digits give headers of one size, so that the number of rows can be filled in last.
/// DType: kU8, kF16 or kF32. Format 1.0 (NEP 1).
[[nodiscard]] std::string npy_header(DType dtype, const Shape& shape, int row_digits = 20);

struct NpyInfo {
  DType dtype = DType::kF32;
  Shape shape;
  std::size_t data_offset = 0;
};

/// Parses a header (formats 1.0, 2.0, 3.0). Accepts C-order arrays of |u1, <f2, <f4; throws
/// fovea::Error naming what is wrong otherwise, or when `bytes` (the whole file) is not exactly
/// as long as the header says.
[[nodiscard]] NpyInfo parse_npy(std::span<const std::byte> bytes);

/// A memory-mapped .npy file.
class NpyFile {
 public:
  explicit NpyFile(const std::filesystem::path& path);
  [[nodiscard]] ConstTensorView view() const;
  [[nodiscard]] const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
  NpyInfo info_;
};

}  // namespace fovea::io
