// OutputLock: prevents two runs from writing to one folder, and records which files are complete.
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

/// Returns a shared lock, which prevents jobs from writing to the folder. Throws fovea::Error when
/// a run is writing to it. Does not write to the folder itself.
[[nodiscard]] io::OpenedFile lock_shared(const io::Folder& folder);

/// Holds an advisory lock on the file `.lock` in the folder, which is never removed.
///
/// The file also caches the checksums of complete files, with their sizes, inode numbers and times
/// of change. A file for which all of these are the same has not changed and is not read again.
class OutputLock {
 public:
  /// Throws fovea::Error when another run holds the lock.
  explicit OutputLock(std::shared_ptr<const io::Folder> folder);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  /// Returns whether the file is recorded with this checksum and has not changed since.
  [[nodiscard]] bool is_recorded(const std::string& name, std::uint64_t sum) const;
  /// Records that a complete file has this checksum. `info`: the result of stat(2) before its
  /// content was verified.
  void record(const std::string& name, std::uint64_t sum, const struct stat& info);
  /// Records an embeddings file that was just renamed to its final name, and its index.
  void record(const OutputLayout& layout, const FileRecord& file);
  /// Writes the records of files whose next change would get another time stamp.
  void flush();
  /// Removes all records.
  void clear();

 private:
  struct Entry {
    std::uint64_t sum = 0;
    std::uint64_t size = 0;
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Entry&) const = default;
  };
  [[nodiscard]] static Entry make_entry(const struct stat& info, std::uint64_t sum);
  void load();
  void write(const std::string& text);

  std::shared_ptr<const io::Folder> folder_;
  io::FileLock lock_;
  std::map<std::string, Entry> entries_;
  std::vector<std::pair<std::string, Entry>> pending_;
  std::uint64_t end_ = 0;  // the size of the lock file
};

}  // namespace fovea::pipeline
