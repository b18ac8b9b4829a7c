// The files of an output folder, by name.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "pipeline/manifest.hpp"

namespace fovea::pipeline {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 20;
inline constexpr const char* kJournalFile = "checksums.jsonl";
inline constexpr const char* kErrorsFile = "errors.jsonl";
inline constexpr const char* kRetryingFile =
    "retrying.jsonl";  // errors.jsonl while its inputs are tried again
inline constexpr const char* kLockFile = ".lock";
/// The folder within an output in which an update or a merge prepares new files.
inline constexpr const char* kUpdateFolder = ".update";

[[nodiscard]] std::string partial(const std::string& name);

/// Returns the number in the name of an embeddings file or its index, of any format, finished or
/// partial; nothing for other names.
[[nodiscard]] std::optional<std::uint64_t> shard_number(std::string_view name);

/// Whether a name is one of embeddings-*, index-*, of any format, finished or partial.
[[nodiscard]] bool is_shard_file(std::string_view name);

/// Whether a job with this output may write a file of that name, finished or not: in the folder, or
/// beside the array.
[[nodiscard]] bool is_output_file(const std::filesystem::path& output, std::string_view name);

/// Whether an output is one array, and not a folder.
[[nodiscard]] bool is_array_file(const std::filesystem::path& output);
/// The names of the array, its index and its errors, which are beside it.
[[nodiscard]] std::array<std::string, 3> array_files(const std::filesystem::path& output);

/// The dimensions of a row: of an embedding [dimension], of features [tokens, dimension].
[[nodiscard]] std::vector<std::int64_t> row_shape(const JobIdentity& identity);

/// How the rows of a job are stored.
class OutputLayout {
 public:
  explicit OutputLayout(const JobIdentity& identity);

  [[nodiscard]] bool has_index() const { return format_ == OutputFormat::kNpy; }
  [[nodiscard]] std::string data_file(std::uint64_t number) const;
  [[nodiscard]] std::string index_file(std::uint64_t number) const;

  /// Whether a name is that of one of the first `files` complete files or their indexes. Parses the
  /// name, since `files` may be a huge number from a damaged manifest.
  [[nodiscard]] bool is_complete_file(std::string_view name, std::uint64_t files) const;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }
  /// Returns the header of a file with that many rows; its length does not depend on their number.
  [[nodiscard]] std::string header(std::uint64_t rows) const;
  [[nodiscard]] std::uint64_t header_bytes() const { return header_bytes_; }
  /// Whether an embeddings file of that length can hold that many rows. Always true for text.
  [[nodiscard]] bool is_length(std::uint64_t bytes, std::uint64_t rows) const;

 private:
  OutputFormat format_;
  DType dtype_;
  std::vector<std::int64_t> row_shape_;
  std::size_t row_bytes_;
  std::uint64_t header_bytes_ = 0;
};

}  // namespace fovea::pipeline
