// Outputs: where the rows, the index and the errors of a job go. Formats: docs/output.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/dtype.hpp"
#include "core/tensor_view.hpp"
#include "io/atomic_file.hpp"
#include "io/partial_file.hpp"
#include "pipeline/batch.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/manifest.hpp"
#include "pipeline/output_lock.hpp"

namespace fovea::pipeline {

/// Takes batches in input order. Used by one thread.
class Output {
 public:
  Output() = default;
  virtual ~Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// `rows`: those of the batch's good slots, one after the other, as they are to be stored.
  virtual void append(const Batch& batch, std::span<const std::byte> rows) = 0;

  /// Makes what was appended so far durable, for a run that stops early.
  virtual void checkpoint() = 0;

  /// Called now and then while there is nothing to append.
  virtual void idle() {}

  /// Puts the finished files in place.
  virtual void finish() = 0;
};

/// One array with its index and errors beside it, all or nothing.
class FileOutput final : public Output {
 public:
  /// `path` ends in ".npy". `row_shape`: dimensions after the first.
  FileOutput(const std::filesystem::path& path, DType dtype, const Shape& row_shape);

  void append(const Batch& batch, std::span<const std::byte> rows) override;
  void checkpoint() override {}
  void finish() override;

  [[nodiscard]] std::uint64_t rows() const { return rows_; }

 private:
  [[nodiscard]] std::string header() const;

  DType dtype_;
  Shape row_shape_;
  std::uint64_t rows_ = 0;
  io::AtomicFile array_;
  io::AtomicFile index_;
  io::AtomicFile errors_;
};

/// A folder of embeddings that a later run can go on with.
///
/// Rows go to .partial files. A checkpoint syncs them and then replaces manifest.json, which
/// records how long they are; a run that finds an unfinished manifest cuts the files back to
/// those lengths and goes on after the inputs it counts. A full file of embeddings is renamed
/// after its index, so that whoever sees it also finds its index.
class FolderOutput final : public Output {
 public:
  /// Makes the folder, locks it against other runs, and reads what is there. Throws fovea::Error
  /// when that is another job's (naming the differences), in use, or not writable.
  /// `least_interval`: checkpoints come no more often, and take no more than a tenth of the time.
  FolderOutput(std::filesystem::path folder, const JobIdentity& identity, bool overwrite,
               std::chrono::milliseconds least_interval = std::chrono::milliseconds(50));

  /// The durable state found, or the initial one.
  [[nodiscard]] const JobState& state() const { return manifest_.state; }
  /// Whether an earlier run had begun.
  [[nodiscard]] bool found() const { return found_; }

  /// Turns a finished output into one whose failed inputs are to be tried again.
  void begin_retry();
  /// The inputs to be tried again; call when state().retrying.
  [[nodiscard]] RetryNames retry_names() const;

  /// Opens the files, to be called before append().
  void begin();

  void append(const Batch& batch, std::span<const std::byte> rows) override;
  void checkpoint() override;
  void idle() override;

  /// Lists a failed input that is not among the inputs any more. To be called between the last
  /// checkpoint() and finish() only: it does not count as an input of this run.
  void add_lost(std::string_view name, std::string_view error);

  void finish() override;

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] std::filesystem::path data_path(std::uint64_t number) const;
  [[nodiscard]] std::filesystem::path index_path(std::uint64_t number) const;
  [[nodiscard]] std::string header(std::uint64_t rows) const;
  void remove_all() const;
  void check_counted(const std::filesystem::path& path) const;
  void remove_files_from(std::uint64_t first) const;
  void write_manifest() const;
  void open_files();
  void commit_files();
  void append_rows(std::span<const Slot* const> slots, std::span<const std::byte> rows);
  std::string json_rows(std::span<const Slot* const> slots, std::span<const std::byte> rows) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  DType dtype_;
  std::size_t row_bytes_;
  Clock::duration least_interval_;
  Clock::duration interval_;  // between checkpoints, from what the last one took
  bool found_ = false;
  bool dirty_ = false;  // something was appended since the last checkpoint
  std::optional<OutputLock> lock_;
  std::unique_ptr<io::PartialFile> data_;   // the file of embeddings that is being filled
  std::unique_ptr<io::PartialFile> index_;  // its index; none for jsonl
  std::unique_ptr<io::PartialFile> errors_;
  Clock::time_point last_checkpoint_ = Clock::now();
};

}  // namespace fovea::pipeline
