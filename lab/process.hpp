// Runs other programs: disassemblers and the profiler.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace fovea::lab {

struct ProcessResult {
  int exit_code = 0;  // 128 + the signal's number when it was killed
  std::string output;
  std::string errors;
};

/// The path of a program of this name: on the PATH, beside this program, in build/cuda/bin (where
/// scripts/setup puts CUDA's tools), or in CUDA's own folder. Empty when it is in none of them.
[[nodiscard]] std::string find_program(const std::string& program);

/// Runs a program, by its path or on the PATH, to its end, without a shell. Throws fovea::Error
/// when it cannot be started.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& arguments);

/// A file with this content, removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::span<const std::byte> content);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace fovea::lab
