// Names of output files, and the layout of embeddings files.
#include "pipeline/output_files.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "io/npy.hpp"

namespace fovea::pipeline {

std::string partial_name(const std::string& name) {
  return name + ".partial";
}

std::optional<std::uint64_t> shard_number(std::string_view name) {
  for (const std::string_view prefix : {"embeddings-", "index-"}) {
    if (!name.starts_with(prefix)) {
      continue;
    }
    std::uint64_t number = 0;
    const std::string_view rest = name.substr(prefix.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    const std::string_view tail = rest.substr(static_cast<std::size_t>(end - rest.data()));
    if (error == std::errc{} && (tail == ".npy" || tail == ".jsonl" || tail == ".npy.partial" ||
                                 tail == ".jsonl.partial")) {
      return number;
    }
  }
  return std::nullopt;
}

bool is_shard_file(std::string_view name) {
  return shard_number(name).has_value();
}

bool is_output_file(const std::filesystem::path& output, std::string_view name) {
  constexpr std::string_view kPartialSuffix = ".partial";
  const std::string_view final_name =
      name.ends_with(kPartialSuffix) ? name.substr(0, name.size() - kPartialSuffix.size()) : name;
  if (is_array_file(output)) {
    const auto files = array_files(output);
    return std::ranges::find(files, final_name) != files.end();
  }
  constexpr std::string_view kFiles[] = {kManifestFile, kJournalFile, kErrorsFile,
                                         kRetryingFile, kLockFile,    kUpdateFolder};
  return is_shard_file(name) || std::ranges::find(kFiles, final_name) != std::end(kFiles);
}

bool is_array_file(const std::filesystem::path& output) {
  return output.native().ends_with(".npy");
}

std::array<std::string, 3> array_files(const std::filesystem::path& output) {
  const std::string stem = output.filename().replace_extension().native();
  return {output.filename().native(), stem + ".index.jsonl", stem + ".errors.jsonl"};
}

std::vector<std::int64_t> row_shape(const JobIdentity& identity) {
  return identity.tokens > 0 ? std::vector{identity.tokens, identity.dimension}
                             : std::vector{identity.dimension};
}

OutputLayout::OutputLayout(const JobIdentity& identity)
    : format_(identity.format),
      dtype_(identity.dtype == OutputDType::kF32 ? DType::kF32 : DType::kF16),
      row_shape_(row_shape(identity)),
      row_bytes_(static_cast<std::size_t>(Shape(row_shape_).elements()) * size_of(dtype_)),
      header_bytes_(header(0).size()) {}

std::string OutputLayout::data_file(std::uint64_t number) const {
  return fmt::format("embeddings-{:05}.{}", number, to_string(format_));
}

std::string OutputLayout::index_file(std::uint64_t number) const {
  return fmt::format("index-{:05}.jsonl", number);
}

bool OutputLayout::is_complete_file(std::string_view name, std::uint64_t files) const {
  const std::optional<std::uint64_t> number = shard_number(name);
  return number && *number < files && (name == data_file(*number) || name == index_file(*number));
}

std::string OutputLayout::header(std::uint64_t rows) const {
  if (!has_index()) {
    return "";
  }
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows)};
  shape.insert(shape.end(), row_shape_.begin(), row_shape_.end());
  return io::npy_header(dtype_, Shape(shape));
}

bool OutputLayout::is_file_size(std::uint64_t bytes, std::uint64_t rows) const {
  return !has_index() || (bytes >= header_bytes_ && (bytes - header_bytes_) % row_bytes_ == 0 &&
                          (bytes - header_bytes_) / row_bytes_ == rows);
}

}  // namespace fovea::pipeline
