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
  bool checksum = false;                       // as in EmbedOptions
  std::optional<std::uint64_t> max_drop = {};  // as in EmbedOptions
  std::function<void(std::string_view)> on_note = {};
  StopFlag stop = {};
};

/// Missing rows are computed into `.update/rows`, an output that a later run can resume. finish()
/// then replaces all changed files together. Until then, the output is unchanged.
///
/// Existing rows keep their order, also those of changed photos, which are replaced in place. Rows
/// of new photos come last, in input order, and fill up the last file before new ones are added. An
/// embeddings file whose rows all stay is left untouched. A file that loses all its rows becomes an
/// empty array, or is removed when it is the last.
class Update {
 public:
  /// `output`: opened, verified and locked; begin() is not called yet. `identity`: that of this
  /// run.
  Update(pipeline::FolderOutput& output, const pipeline::JobIdentity& identity,
         UpdateOptions options);
  ~Update();

  /// Selects only the inputs that must be read.
  void select(pipeline::InputStream& inputs);
  [[nodiscard]] pipeline::ContentCheck contents() const;
  /// Returns the output to which computed rows are written.
  [[nodiscard]] pipeline::Output& staging();
  /// Returns how many inputs so far keep their rows.
  [[nodiscard]] std::uint64_t unchanged() const { return reconciler_.unchanged(); }

  /// Replaces the changed files after the last input. Throws fovea::Error, and changes nothing,
  /// when that could lose rows by mistake (see Reconciler::end() and UpdateOptions::max_drop).
  UpdateCounts finish(const std::vector<std::string>& empty_folders, const FileCounts& left_out);

 private:
  class Staging;

  [[nodiscard]] std::unique_ptr<pipeline::FolderOutput> open_staging(
      const pipeline::JobIdentity& identity);
  [[nodiscard]] bool is_unchanged(const StoredPart& part) const;
  void write_shards(const StoredRows& staged, NewOutput& files);
  [[nodiscard]] std::uint64_t lost_range(const StoredRows& staged) const;
  [[nodiscard]] bool is_output_unchanged(const NewOutput& files,
                                         const pipeline::JobState& new_state) const;
  void write_errors(NewOutput& files) const;

  pipeline::FolderOutput& output_;
  pipeline::JobIdentity identity_;
  UpdateOptions options_;
  StoredRows base_;
  std::unique_ptr<pipeline::FolderOutput> rows_;  // in `.update/rows`
  StoredRows previous_rows_;
  Reconciler reconciler_;
  std::uint64_t errors_before_;  // the size of the errors.jsonl of rows_ when the update begins
  std::unique_ptr<Staging> staging_;
};

}  // namespace fovea::collection
