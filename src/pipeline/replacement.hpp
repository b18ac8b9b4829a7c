// Replacement: replaces files of an output by new ones, atomically.
#pragma once

#include <memory>
#include <optional>

#include "io/folder.hpp"
#include "pipeline/manifest.hpp"

namespace fovea::pipeline {

// The new files are prepared in the folder `.update/new.partial`. Renaming it to `.update/new`
// commits the change: until then the output is unchanged, and from then on every run that opens the
// output moves the files that are still in the folder, so that it does not matter when a run is
// killed. While files are moved, manifest.json says that the output is not finished. An embeddings
// file is removed before its index is replaced, so that no reader ever sees a wrong pair.

class Replacement {
 public:
  /// Creates an empty folder, and removes files that an earlier run left in it.
  explicit Replacement(std::shared_ptr<const io::Folder> output);

  /// Returns the folder for the new files, under their final names: changed embeddings files and
  /// indexes, errors.jsonl and checksums.jsonl. commit() removes files of the output that the new
  /// manifest does not count.
  [[nodiscard]] const std::shared_ptr<const io::Folder>& folder() const { return folder_; }

  /// Moves the files to the output and removes `.update`. `manifest`: that of the finished output.
  void commit(const Manifest& manifest);

 private:
  std::shared_ptr<const io::Folder> output_;
  std::shared_ptr<const io::Folder> updates_;
  std::shared_ptr<const io::Folder> folder_;
};

/// Returns the manifest of an interrupted commit(); nullopt when none was interrupted.
[[nodiscard]] std::optional<Manifest> interrupted_replacement(const io::Folder& output);

/// Completes an interrupted commit(), if there is one. The output must be locked.
void finish_replacement(const std::shared_ptr<const io::Folder>& output);

/// Removes files left by a run or a repair that was killed while it renamed files. `finished`:
/// whether the output is finished; an unfinished job needs its partial files.
void remove_leftovers(const io::Folder& output, bool finished);

}  // namespace fovea::pipeline
