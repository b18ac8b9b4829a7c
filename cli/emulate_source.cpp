// Kernels that `fovea emulate` runs: PTX, or a CUDA source that is compiled first.
#include "cli/emulate_source.hpp"

#include "lab/system/cuda_source.hpp"

namespace fovea::cli {

bool is_cuda_source(const std::string& file) {
  return std::filesystem::path(file).extension() == ".cu";
}

KernelSource::KernelSource(const std::string& file, const std::vector<std::string>& compiler_flags)
    : name_(file), ptx_(file) {
  if (is_cuda_source(file)) {
    ptx_ = folder_.emplace().path() / "kernels.ptx";
    lab::compile_to_ptx(file, ptx_, compiler_flags);
  }
}

}  // namespace fovea::cli
