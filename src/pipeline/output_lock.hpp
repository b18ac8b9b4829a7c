// OutputLock: keeps two runs from writing to one folder.
#pragma once

#include <filesystem>

#include "io/file_lock.hpp"

namespace fovea::pipeline {

/// Holds an advisory lock on `folder`/.lock; the empty file stays. Throws fovea::Error when another
/// run holds it.
class OutputLock {
 public:
  explicit OutputLock(const std::filesystem::path& folder);

 private:
  io::FileLock lock_;
};

}  // namespace fovea::pipeline
