// NewOutput: files of an output, built from rows of others, that replace the old ones atomically.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collection/shard_builder.hpp"
#include "core/stop.hpp"
#include "fovea/job.hpp"
#include "pipeline/output.hpp"
#include "pipeline/replacement.hpp"

namespace fovea::collection {

/// Builds the new files of an output. Call keep() or add() for each embeddings file and
/// add_errors() for the failed inputs; then seal() and put_in_place().
class NewOutput {
 public:
  /// `output`: the output whose files are replaced; it may be empty.
  NewOutput(pipeline::FolderOutput& output, const pipeline::JobIdentity& identity, StopFlag stop);

  /// Returns the number of embeddings files so far.
  [[nodiscard]] std::uint64_t files() const { return records_.size(); }
  /// Takes over an existing file of the output, which must have the number of the next file.
  void keep(const pipeline::FileRecord& record) { records_.push_back(record); }
  /// Returns a builder for the next file; fill it and pass it to add().
  [[nodiscard]] ShardBuilder begin_file() const;
  void add(ShardBuilder& file);
  /// Returns whether any file was added, rather than kept.
  [[nodiscard]] bool has_new_files() const { return has_new_files_; }

  /// Adds complete lines to errors.jsonl.
  void add_errors(std::span<const std::byte> lines);

  /// Completes the state of the new output. `names`: the hash over the names of the inputs.
  const pipeline::JobState& seal(std::uint64_t names, std::uint64_t lost_range);
  void put_in_place(const FileCounts& left_out, const std::optional<UpdateCounts>& update);

 private:
  pipeline::FolderOutput& output_;
  StopFlag stop_;
  pipeline::Replacement replacement_;
  pipeline::OutputLayout layout_;
  pipeline::Manifest manifest_;
  std::vector<pipeline::FileRecord> records_;
  bool has_new_files_ = false;
  std::unique_ptr<pipeline::SummedFile> errors_;  // null after seal()
};

}  // namespace fovea::collection
