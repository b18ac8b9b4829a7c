// The safetensors format: the header is parsed and checked, and tensors stay in the file.
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
#include "core/stop.hpp"
#include "io/file.hpp"

namespace fovea::model {

/// Returns the name of a type in the format: "BF16".
[[nodiscard]] std::string_view stored_name(DType type);

/// One tensor in a file.
struct StoredTensor {
  std::string_view dtype;            // as in the file: "F32", "BF16", "I64", ...
  std::vector<std::uint64_t> shape;  // rank 0: one element
  std::uint64_t offset = 0;          // in the file; need not be aligned
  std::uint64_t bytes = 0;

  /// Returns Fovea's element type, or nothing if it has no such type that converts to float32.
  [[nodiscard]] std::optional<DType> float_dtype() const;
  /// Returns the shape as text: "[2, 3]".
  [[nodiscard]] std::string shape_text() const;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// Size of the header length at the beginning of a file, in bytes.
inline constexpr std::size_t kSafetensorsLengthBytes = 8;

/// Returns the header length given in `start`, the first bytes of a file of `file_bytes`. Throws
/// fovea::Error with `file` when no header of that length can follow.
[[nodiscard]] std::size_t safetensors_header_bytes(std::span<const std::byte> start,
                                                   std::uint64_t file_bytes, std::string_view file);

/// Parses the header of a file of `file_bytes` (safetensors README and safetensors/src/tensor.rs)
/// and checks the JSON (UTF-8, no duplicate keys, known dtypes), and that the tensors, sorted by
/// offset, fill the data exactly, without gap, overlap, overflow or rest. Throws fovea::Error
/// with `file`, the tensor and the byte offset in the file; Interrupted when `stop` is set.
[[nodiscard]] StoredTensors parse_safetensors(std::string_view header, std::uint64_t file_bytes,
                                              std::string_view file, StopFlag stop = {});

/// A tensor of a file to be written.
struct TensorEntry {
  std::string name;
  std::string_view dtype;  // as in the file: "F32"
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
};

/// Returns the header of a file whose tensors follow in this order without gaps: its length and
/// JSON, padded so that the data starts at a multiple of 8.
[[nodiscard]] std::string safetensors_header(std::span<const TensorEntry> tensors);

/// An open, checked safetensors file.
class SafetensorsFile {
 public:
  /// Throws fovea::Error naming the path; Interrupted when `stop` is set.
  explicit SafetensorsFile(const std::filesystem::path& path, StopFlag stop = {});

  [[nodiscard]] const io::File& file() const { return file_; }
  [[nodiscard]] const StoredTensors& tensors() const { return tensors_; }

 private:
  io::File file_;
  StoredTensors tensors_;
};

}  // namespace fovea::model
