// The files of an output: their names, and the layout of embeddings files.
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
/// The name of errors.jsonl while its inputs are tried again.
inline constexpr const char* kRetryingFile = "retrying.jsonl";
inline constexpr const char* kLockFile = ".lock";
/// The folder within an output in which an update or a merge prepares new files.
inline constexpr const char* kUpdateFolder = ".update";

[[nodiscard]] std::string partial_name(const std::string& name);

/// Returns the number in the name of an embeddings file or its index, of any format, finished or
/// partial; nullopt for other names.
[[nodiscard]] std::optional<std::uint64_t> shard_number(std::string_view name);

/// Returns whether a name is that of an embeddings file or its index, finished or partial.
[[nodiscard]] bool is_shard_file(std::string_view name);

/// Returns whether a job with this output may write a file of that name, finished or partial, into
/// the output folder or into the folder of the array.
[[nodiscard]] bool is_output_file(const std::filesystem::path& output, std::string_view name);

/// Returns whether an output is one array rather than a folder.
[[nodiscard]] bool is_array_file(const std::filesystem::path& output);
/// Returns the file names of the array, its index and its errors, which are in one folder.
[[nodiscard]] std::array<std::string, 3> array_files(const std::filesystem::path& output);

/// Returns the shape of a row: [dimension] for embeddings, [tokens, dimension] for features.
[[nodiscard]] std::vector<std::int64_t> row_shape(const JobIdentity& identity);

/// The layout of the files in which the rows of a job are stored.
class OutputLayout {
 public:
  explicit OutputLayout(const JobIdentity& identity);

  [[nodiscard]] bool has_index() const { return format_ == OutputFormat::kNpy; }
  [[nodiscard]] std::string data_file(std::uint64_t number) const;
  [[nodiscard]] std::string index_file(std::uint64_t number) const;

  /// Returns whether a name is that of one of the first `files` complete files or their indexes.
  /// Takes constant time, since `files` may be a huge number from a damaged manifest.
  [[nodiscard]] bool is_complete_file(std::string_view name, std::uint64_t files) const;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }
  /// Returns the header of a file with that many rows. Its size does not depend on `rows`.
  [[nodiscard]] std::string header(std::uint64_t rows) const;
  [[nodiscard]] std::uint64_t header_bytes() const { return header_bytes_; }
  /// Returns whether an embeddings file with that many rows has this size; always true for text.
  [[nodiscard]] bool is_file_size(std::uint64_t bytes, std::uint64_t rows) const;

 private:
  OutputFormat format_;
  DType dtype_;
  std::vector<std::int64_t> row_shape_;
  std::size_t row_bytes_;
  std::uint64_t header_bytes_ = 0;
};

}  // namespace fovea::pipeline
