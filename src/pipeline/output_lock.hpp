// OutputLock: keeps two runs from writing to one folder, and records which files are whole.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "io/file_lock.hpp"
#include "pipeline/journal.hpp"
#include "pipeline/output_files.hpp"

namespace fovea::pipeline {

/// Keeps jobs from writing to the folder while the result lives, without writing to it. Throws
/// fovea::Error when a run is writing to it.
[[nodiscard]] io::OpenedFile lock_shared(const io::Folder& folder);

/// Holds an advisory lock on the folder's `.lock`, which stays.
///
/// The file also records the checksums of complete files, with their size, inode number and time of
/// change: a file for which all of these still hold has not been touched since and need not be read
/// again. It is a cache: files that it does not know are read.
class OutputLock {
 public:
  /// Throws fovea::Error when another run holds the lock.
  explicit OutputLock(std::shared_ptr<const io::Folder> folder);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  /// Whether the file is recorded with that checksum and is unchanged.
  [[nodiscard]] bool knows(const std::string& name, std::uint64_t sum) const;
  /// Records that a complete file has this checksum. `info`: the result of stat(2) from before the
  /// content was checked.
  void remember(const std::string& name, std::uint64_t sum, const struct stat& info);
  /// Records an embeddings file that was just renamed to its final name, and its index.
  void remember(const OutputLayout& layout, const FileRecord& record);
  /// Writes the records of files that were last changed before the file system's current time step.
  void flush();
  /// Forgets everything.
  void clear();

 private:
  struct Entry {
    std::uint64_t sum = 0;
    std::uint64_t size = 0;
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Entry&) const = default;
  };
  [[nodiscard]] static Entry entry_of(const struct stat& info, std::uint64_t sum);
  void load();
  void write(const std::string& text);

  std::shared_ptr<const io::Folder> folder_;
  io::FileLock lock_;
  std::map<std::string, Entry> entries_;
  std::vector<std::pair<std::string, Entry>> pending_;
  std::uint64_t end_ = 0;  // of the bytes written
};

}  // namespace fovea::pipeline
