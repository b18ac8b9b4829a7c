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
  std::string output;                ///< a folder, which is created when it does not exist
  /// Takes a photo that several outputs have from the first of them. Otherwise merging throws
  /// Error.
  bool keep_first = false;
  /// Joins outputs even when shards of a job are missing, and lists the missing ones in
  /// manifest.json. Otherwise merging throws an Error that names them.
  bool partial = false;
  bool overwrite = false;        ///< discard the contents of `output`
  std::uint64_t shard_rows = 0;  ///< rows per embeddings file; 0: that of the first output
  /// Called from the thread of merge_outputs while rows are copied.
  std::function<void(std::uint64_t rows, std::uint64_t total)> on_progress;
  const std::atomic<bool>* stop = nullptr;  ///< set to true to end with MergeReport::interrupted
};

struct MergeReport {
  std::uint64_t rows = 0;
  std::uint64_t failed = 0;    ///< inputs listed as failed
  std::uint64_t left_out = 0;  ///< photos that an earlier output already has (keep_first)
  /// The outputs are shards of one job (InputOptions::shard_index), and inputs are in the order
  /// that the job without shards gives. Otherwise the outputs follow one another.
  bool in_input_order = false;
  std::string missing = {};   ///< "shard 3/8 is missing" for a partial result; otherwise ""
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
