// Kernels that `fovea emulate` runs: PTX, or a CUDA source that is compiled first.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lab/system/process.hpp"

namespace fovea::cli {

class KernelSource {
 public:
  /// Compiles a file whose name ends in .cu. Throws fovea::Error if that fails.
  KernelSource(const std::string& file, const std::vector<std::string>& compiler_flags);

  [[nodiscard]] const std::filesystem::path& ptx() const { return ptx_; }
  /// Name of the file that the user gave.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::filesystem::path ptx_;
  std::optional<lab::TemporaryFolder> folder_{};  // of PTX that was compiled
};

/// Whether the file is a CUDA source, by its name.
[[nodiscard]] bool is_cuda_source(const std::string& file);

}  // namespace fovea::cli
