// Replacement: replaces files of an output by new ones, all at once.
#pragma once

#include <memory>
#include <optional>

#include "io/folder.hpp"
#include "pipeline/manifest.hpp"

namespace fovea::pipeline {

// The new files are prepared in a folder of their own, `.update/new.partial`, and renaming that to
// `.update/new` decides: before it, the output is as it was; after it, every run that opens the
// output moves the files that are still there, so that a kill in the midst of it changes nothing.
// While they are moved, manifest.json says that the output is not finished, and a file of
// embeddings is removed before the index beside it is replaced, so that no reader ever pairs them
// wrongly.

class Replacement {
 public:
  /// Creates an empty folder, and removes files that an earlier run left in it.
  explicit Replacement(std::shared_ptr<const io::Folder> output);

  /// Returns the folder for the new files, under their final names: changed embeddings and indexes,
  /// errors.jsonl and checksums.jsonl. Files not counted by the manifest are removed from the
  /// output.
  [[nodiscard]] const std::shared_ptr<const io::Folder>& folder() const { return folder_; }

  /// Puts the files in place and removes `.update`. `manifest` is of the finished output.
  void commit(const Manifest& manifest);

 private:
  std::shared_ptr<const io::Folder> output_;
  std::shared_ptr<const io::Folder> updates_;
  std::shared_ptr<const io::Folder> folder_;
};

/// The manifest of the output as an interrupted commit() makes it; nothing when none was.
[[nodiscard]] std::optional<Manifest> interrupted_replacement(const io::Folder& output);

/// Completes an interrupted commit(), if there is one. The output must be locked.
void finish_replacement(const std::shared_ptr<const io::Folder>& output);

/// Removes files left by a run or a repair that was killed while it renamed files. `finished`:
/// whether the output is finished; the files of an unfinished job are partial ones.
void remove_leftovers(const io::Folder& output, bool finished);

}  // namespace fovea::pipeline
