// ShardFile: an embeddings file that is being written, with its index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/digest.hpp"
#include "io/folder.hpp"
#include "io/partial_file.hpp"
#include "pipeline/journal.hpp"
#include "pipeline/output_files.hpp"

namespace fovea::pipeline {

/// A PartialFile with a checksum over its content.
class SummedFile {
 public:
  /// `sum`: the checksum over the first `keep` bytes.
  SummedFile(std::shared_ptr<const io::Folder> folder, std::string name, std::uint64_t keep,
             io::Digest sum)
      : file_(std::move(folder), std::move(name), keep), sum_(std::move(sum)) {}

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Writes a header at the beginning. The checksum does not cover it.
  void write_header(std::string_view header);

  [[nodiscard]] std::uint64_t size() const { return file_.size(); }
  [[nodiscard]] std::uint64_t sum() const { return sum_.head(); }
  void sync() { file_.sync(); }
  void commit() { file_.commit(); }

 private:
  io::PartialFile file_;
  io::Digest sum_;
};

class ShardFile {
 public:
  /// The parts of an earlier run's files that are kept.
  struct KeptPart {
    std::uint64_t data_bytes = 0;
    std::uint64_t index_bytes = 0;
    io::Digest data = io::Digest();  // checksums over these bytes
    io::Digest index = io::Digest();
  };

  ShardFile(std::shared_ptr<const io::Folder> folder, const OutputLayout& layout,
            std::uint64_t number);
  ShardFile(std::shared_ptr<const io::Folder> folder, const OutputLayout& layout,
            std::uint64_t number, KeptPart kept);

  /// Appends the bytes of rows and their index lines. In the text format only the lines are stored,
  /// which contain the embeddings.
  void append(std::span<const std::byte> rows, std::string_view lines);

  void sync();
  /// Renames the index and then the embeddings file to their final names. `rows`: the number of
  /// rows in the file. The caller must sync the folder.
  FileRecord commit(std::uint64_t rows);

  [[nodiscard]] const SummedFile& data() const { return data_; }
  /// Returns the index; null for the text format.
  [[nodiscard]] const SummedFile* index() const { return index_ ? &*index_ : nullptr; }

 private:
  OutputLayout layout_;
  std::uint64_t number_;
  SummedFile data_;
  std::optional<SummedFile> index_;
};

}  // namespace fovea::pipeline
