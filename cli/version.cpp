// The version in a line, and the rest in others.
#include "cli/version.hpp"

#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fovea/version.hpp"
#include "gpu/device/kernel_image.hpp"

namespace fovea::cli {

std::string version_text() {
  const BuildInfo info = build_info();
  std::set<int> architectures;
  for (const gpu::KernelImage& image : gpu::kernel_images()) {
    architectures.insert(image.arch);
  }
  std::vector<std::string> libraries;
  libraries.reserve(info.libraries.size());
  for (const auto& [name, version] : info.libraries) {
    libraries.push_back(fmt::format("{} {}", name, version));
  }
  const std::string kernels = architectures.empty()
                                  ? "none: built without the CUDA compiler"
                                  : fmt::format("sm_{}", fmt::join(architectures, ", sm_"));
  return fmt::format(
      "fovea {}\n"
      "commit     {}\n"
      "build      {}\n"
      "CPU        {}\n"
      "kernels    {}\n"
      "libraries  {}",
      info.version, info.commit, info.build_type, info.instruction_set, kernels,
      fmt::join(libraries, "\n           "));
}

}  // namespace fovea::cli
