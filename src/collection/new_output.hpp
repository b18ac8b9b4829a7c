// NewOutput: the files of an output, put together from rows of others, and put in place at once.
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

/// Used in this order: files of embeddings, errors, seal(), put_in_place().
class NewOutput {
 public:
  /// `output`: of which the files are replaced, or which is empty.
  NewOutput(pipeline::FolderOutput& output, const pipeline::JobIdentity& identity, StopFlag stop);

  /// The number of files so far.
  [[nodiscard]] std::uint64_t files() const { return records_.size(); }
  /// The next file is to be that of the same number in the output.
  void keep(const pipeline::FileRecord& record) { records_.push_back(record); }
  /// The next file, to be filled and given back.
  [[nodiscard]] ShardBuilder begin_file() const;
  void add(ShardBuilder& file);
  /// Whether any file is not kept.
  [[nodiscard]] bool has_new_files() const { return has_new_files_; }

  /// Whole lines of errors.jsonl.
  void add_errors(std::span<const std::byte> lines);

  /// Counts. `names`: the hash over the names of the inputs.
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
  std::unique_ptr<pipeline::SummedFile> errors_;  // until seal()
};

}  // namespace fovea::collection
