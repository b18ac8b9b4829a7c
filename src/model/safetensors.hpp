// The safetensors format: a header parsed and checked, tensors left where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "io/mapped_file.hpp"

namespace fovea::model {

/// One tensor of a file. Its bytes need not be aligned.
struct StoredTensor {
  std::string_view dtype;            // as in the file: "F32", "BF16", "I64", ...
  std::vector<std::uint64_t> shape;  // rank 0: one element
  std::span<const std::byte> bytes;  // within the file's bytes

  /// Fovea's name of the element type, where it has one that can be converted to float32.
  [[nodiscard]] std::optional<DType> float_dtype() const;
  /// "[2, 3]".
  [[nodiscard]] std::string shape_text() const;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// Parses and checks a whole file (safetensors README and safetensors/src/tensor.rs): the header
/// length, the JSON (UTF-8, no duplicate keys, known dtypes), and that the tensors, sorted by
/// offset, fill the data exactly: no gap, no overlap, no overflow, no rest. Throws fovea::Error
/// with `file`, the tensor and the byte offset in the file. Views point into `bytes`.
[[nodiscard]] StoredTensors parse_safetensors(std::span<const std::byte> bytes,
                                              std::string_view file);

/// A tensor of a file to be written.
struct TensorEntry {
  std::string name;
  std::string_view dtype;  // as in the file: "F32"
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
};

/// What stands before the data of a file whose tensors follow in this order without gaps: the
/// length and the JSON, padded so that the data starts at a multiple of 8.
[[nodiscard]] std::string safetensors_header(std::span<const TensorEntry> tensors);

/// A memory-mapped, checked safetensors file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  [[nodiscard]] const io::MappedFile& file() const { return file_; }
  [[nodiscard]] const StoredTensors& tensors() const { return tensors_; }

 private:
  io::MappedFile file_;
  StoredTensors tensors_;
};

}  // namespace fovea::model
