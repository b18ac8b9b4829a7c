// OutputLock: keeps two runs from writing to one folder, and remembers which files are whole.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "io/file_lock.hpp"

namespace fovea::pipeline {

/// Holds an advisory lock on the folder's `.lock`, which stays.
///
/// The file also remembers what complete files had which checksum, with their size, inode number
/// and time of change: a file where all of it still holds has not been touched since and need not
/// be read again. It is a cache: what it has lost or cannot know is read.
class OutputLock {
 public:
  /// Throws fovea::Error when another run holds the lock.
  explicit OutputLock(std::shared_ptr<const io::Folder> folder);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  /// Whether the file has that checksum for all that is remembered.
  [[nodiscard]] bool knows(const std::string& name, std::uint64_t sum) const;
  /// A complete file has this checksum. `info`: what stat(2) said of it before its content was
  /// known to be that.
  void remember(const std::string& name, std::uint64_t sum, const struct stat& info);
  /// Writes down what was to be remembered, as far as it can be by now.
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
  std::uint64_t end_ = 0;  // of what is written
};

}  // namespace fovea::pipeline
