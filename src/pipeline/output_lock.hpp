// OutputLock: keeps two runs from writing to one folder.
#pragma once

#include <filesystem>

namespace fovea::pipeline {

/// Holds an advisory lock on `folder`/.lock. The kernel frees it with the process, however that
/// ends; the empty file stays. Throws fovea::Error when another run holds it.
class OutputLock {
 public:
  explicit OutputLock(const std::filesystem::path& folder);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace fovea::pipeline
