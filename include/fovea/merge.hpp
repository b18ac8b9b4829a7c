// Merging outputs of embed jobs into one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] fovea {

struct MergeOptions {
  std::vector<std::string> outputs;  ///< finished output folders, at least one
  std::string output;                ///< a folder, which is made when it does not exist
  /// A photo that several outputs have is taken from the first of them. Otherwise it is an Error.
  bool keep_first = false;
  /// Outputs of some of the shards of a job are joined, and manifest.json lists those that are
  /// missing. Otherwise it is an Error that names them.
  bool partial = false;
  bool overwrite = false;        ///< discard what `output` holds
  std::uint64_t shard_rows = 0;  ///< rows per embeddings file; 0: as in the first output
  /// Called from the thread of merge_outputs while rows are copied.
  std::function<void(std::uint64_t rows, std::uint64_t total)> on_progress;
  const std::atomic<bool>* stop = nullptr;  ///< set to true to end with MergeReport::interrupted
};

struct MergeReport {
  std::uint64_t rows = 0;
  std::uint64_t failed = 0;    ///< inputs listed as failed
  std::uint64_t left_out = 0;  ///< photos of which an earlier output has the row (keep_first)
  /// The outputs are shards of one job (InputOptions::shard_index), and inputs are in the order
  /// that the job without shards gives. Otherwise one output comes after the other.
  bool in_input_order = false;
  std::string missing = {};   ///< "shard 3/8 is missing" of a partial result; otherwise ""
  bool already_done = false;  ///< `output` held the result, so nothing was written
  bool interrupted = false;   ///< nothing was changed
};

/// Joins outputs into one that can be searched, updated and resumed like any other. Rows keep their
/// bytes. The files appear together at the end; a merge that is killed leaves nothing that a reader
/// sees, and the same call begins again. Throws fovea::Error when an output is unfinished, damaged
/// or in use, when outputs are of different models, preprocessing, precision, dtype, normalisation
/// or format, when several have the same photo, when shards of a
/// job are missing, or when `output` holds something already.
[[nodiscard]] MergeReport merge_outputs(const MergeOptions& options);

}  // namespace fovea
