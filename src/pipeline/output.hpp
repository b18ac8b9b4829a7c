// Outputs of a job: rows, index and errors. docs/output.md documents the formats.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/stop.hpp"
#include "core/tensor_view.hpp"
#include "io/atomic_file.hpp"
#include "io/folder.hpp"
#include "pipeline/batch.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/manifest.hpp"
#include "pipeline/output_files.hpp"
#include "pipeline/output_lock.hpp"
#include "pipeline/output_proof.hpp"
#include "pipeline/replacement.hpp"
#include "pipeline/shard_file.hpp"

namespace fovea::pipeline {

/// Returns the index line of an image.
[[nodiscard]] inline IndexLine make_index_line(std::uint64_t row, const Slot& slot) {
  return {row,       slot.name,   slot.width,      slot.height,
          slot.file, slot.sha256, slot.lost_range, slot.grid};
}

/// An output of a job. It takes batches in input order, and is used by one thread.
class Output {
 public:
  Output() = default;
  virtual ~Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Appends a batch. `rows`: the stored bytes of its rows, one per slot with pixels.
  virtual void append(const Batch& batch, std::span<const std::byte> rows) = 0;

  /// Makes everything appended so far durable, for a run that stops early.
  virtual void checkpoint() = 0;

  /// Called at intervals while there is nothing to append.
  virtual void idle() {}

  /// Renames the finished files to their final names.
  virtual void finish() = 0;
};

/// Writes one array with its index and errors in the same folder. Nothing is visible before
/// finish().
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
  std::shared_ptr<const io::Folder> folder_;
  io::AtomicFile array_;
  io::AtomicFile index_;
  io::AtomicFile errors_;
};

/// Writes a folder of embeddings, which a later run can resume.
///
/// Rows are written to .partial files. A checkpoint syncs them and then replaces manifest.json,
/// which records their sizes and checksums. A run that finds an unfinished manifest truncates the
/// files to those sizes and continues after the inputs that the manifest counts. A full embeddings
/// file is renamed after its index, so that a reader who sees it also finds its index. The folder
/// stays open, so that the job never writes into another folder when its path changes.
class FolderOutput final : public Output {
 public:
  /// Creates the folder, locks it against other runs, and verifies an existing output in it (see
  /// output_proof.hpp). Throws fovea::Error when that output belongs to another job (naming the
  /// differences), is damaged, in use, or not writable; Interrupted when `stop` is set.
  /// `min_interval`: the minimum time between checkpoints, which is extended so that they take at
  /// most a tenth of the time.
  FolderOutput(const std::filesystem::path& folder, const JobIdentity& identity, bool overwrite,
               std::chrono::milliseconds min_interval = std::chrono::milliseconds(50),
               StopFlag stop = {});
  /// Opens an output in an open folder.
  FolderOutput(std::shared_ptr<const io::Folder> folder, const JobIdentity& identity,
               bool overwrite, std::chrono::milliseconds min_interval, StopFlag stop);

  /// Returns the state that an earlier run has stored, or the initial state.
  [[nodiscard]] const JobState& state() const { return manifest_.state; }
  /// Returns whether an output of an earlier run exists.
  [[nodiscard]] bool exists() const { return exists_; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::shared_ptr<const io::Folder>& folder() const { return folder_; }
  /// Returns the complete files of earlier runs.
  [[nodiscard]] const std::vector<FileRecord>& files() const { return proof_.summary.files(); }

  /// Returns the inputs to be tried again, for an output that is finished or in a retry.
  [[nodiscard]] RetryNames retry_names() const;
  /// Reopens a finished output in order to try its failed inputs again.
  void begin_retry();

  /// Opens the files. Must be called before append().
  void begin();

  void append(const Batch& batch, std::span<const std::byte> rows) override;
  void checkpoint() override;
  void idle() override;

  /// Records the files that a complete pass over the inputs left out. Must be called before
  /// finish(), or on a finished output.
  void set_left_out(const FileCounts& left_out);

  /// Lists a failed input that is no longer among the inputs. May be called only between the last
  /// checkpoint() and finish(), because it does not count as an input of this run.
  void add_lost(std::string_view name, std::string_view error);

  /// Finishes the output. Throws afterwards when its path leads to another folder by now.
  void finish() override;

  /// Replaces files of an output for which begin() was not called. Throws as finish() does.
  /// `records`: the records of all embeddings files.
  void replace(Replacement& replacement, const Manifest& manifest,
               const std::vector<FileRecord>& records);

 private:
  using Clock = std::chrono::steady_clock;

  // Returns the path of the folder, or of a file in it, for messages.
  [[nodiscard]] std::string display_path(const std::string& name = "") const;
  [[nodiscard]] std::optional<Manifest> read_existing_manifest() const;
  void check_in_place() const;
  void remove_all();
  void write_manifest() const;
  void open_files();
  void commit_files();
  void append_rows(std::span<const Slot* const> slots, std::span<const std::byte> rows);
  std::string json_rows(std::span<const Slot* const> slots, std::span<const std::byte> rows) const;
  void measure_files();
  void write_state();

  std::shared_ptr<const io::Folder> folder_;
  Manifest manifest_;
  OutputLayout layout_;
  Clock::duration min_interval_;
  Clock::duration interval_;  // between checkpoints; depends on the duration of the last one
  bool exists_ = false;
  bool dirty_ = false;                  // something was appended since the last checkpoint
  bool is_state_journaled_ = false;     // nothing was appended since the last state in the journal
  std::uint64_t journaled_inputs_ = 0;  // the number of inputs in that state
  OutputLock lock_;
  Proof proof_;                       // proof of the existing files; begin() consumes it
  std::unique_ptr<ShardFile> shard_;  // the embeddings file that is being filled
  std::unique_ptr<SummedFile> errors_;
  std::unique_ptr<SummedFile> journal_;  // checksums.jsonl
  Clock::time_point last_checkpoint_ = Clock::now();
};

}  // namespace fovea::pipeline
