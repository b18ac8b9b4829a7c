// Update: brings an output up to date with its inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collection/new_output.hpp"
#include "collection/reconciler.hpp"
#include "collection/stored_rows.hpp"
#include "core/stop.hpp"
#include "fovea/job.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/output.hpp"
#include "pipeline/prepare.hpp"

namespace fovea::collection {

struct UpdateOptions {
  bool checksum = false;                       // see EmbedOptions
  std::optional<std::uint64_t> max_drop = {};  // see EmbedOptions
  std::function<void(std::string_view)> on_note = {};
  StopFlag stop = {};
};

/// Missing rows are computed into `.update/rows`, an output that a later run can resume. finish()
/// then replaces all changed files together. Until then, the output is unchanged.
///
/// The order of rows: those that stay keep their order, the row of a photo that has changed stays
/// in its place, and rows of new photos come last, in input order. An embeddings file is not
/// touched when none of its rows is changed or dropped. The last file is filled up; a file that
/// loses all its rows stays as an empty array unless it is the last.
class Update {
 public:
  /// `output`: opened, proven and locked, but not begun; finished or not. `identity`: of this run.
  Update(pipeline::FolderOutput& output, const pipeline::JobIdentity& identity,
         UpdateOptions options);
  ~Update();

  /// Selects only the inputs that must be read.
  void select(pipeline::InputStream& inputs);
  [[nodiscard]] pipeline::ContentCheck contents() const;
  /// Returns the output for computed rows.
  [[nodiscard]] pipeline::Output& staging();
  /// Returns the number of inputs so far that keep their rows.
  [[nodiscard]] std::uint64_t unchanged() const { return reconciler_.unchanged(); }

  /// Replaces the changed files after the last input. Throws fovea::Error, and changes nothing,
  /// when that is unsafe (Reconciler::end, UpdateOptions::max_drop).
  UpdateCounts finish(const std::vector<std::string>& empty_folders, const FileCounts& left_out);

 private:
  class Staging;

  [[nodiscard]] std::unique_ptr<pipeline::FolderOutput> open_staging(
      const pipeline::JobIdentity& identity);
  [[nodiscard]] bool stays(const StoredPart& part) const;
  void write_shards(const StoredRows& staged, NewOutput& files);
  [[nodiscard]] std::uint64_t lost_range(const StoredRows& staged) const;
  [[nodiscard]] bool is_as_it_was(const NewOutput& files, const pipeline::JobState& is) const;
  void write_errors(NewOutput& files) const;

  pipeline::FolderOutput& output_;
  pipeline::JobIdentity identity_;
  UpdateOptions options_;
  StoredRows base_;
  std::unique_ptr<pipeline::FolderOutput> rows_;  // in .update
  StoredRows staged_before_;
  Reconciler reconciler_;
  std::uint64_t errors_before_;  // bytes of its errors.jsonl
  std::unique_ptr<Staging> staging_;
};

}  // namespace fovea::collection
