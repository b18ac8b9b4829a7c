// The versions of Fovea, its commit and the libraries in it.
#include "fovea/version.hpp"

#include "backends.hpp"
#include "image/versions.hpp"

namespace fovea {

extern const char* const kCommit;  // cmake/Commit.cmake writes it

BuildInfo build_info() {
  const CpuInfo cpu = cpu_info();
  BuildInfo info{.version = FOVEA_VERSION,
                 .commit = kCommit,
                 .build_type = FOVEA_BUILD_TYPE,
                 .instruction_set = cpu.instruction_set,
                 .libraries = image::library_versions()};
  info.libraries.insert(info.libraries.begin(), {"oneDNN", cpu.onednn_version});
  return info;
}

}  // namespace fovea
