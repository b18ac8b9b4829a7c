// The versions of Fovea, its commit and the libraries in it.
#include "fovea/version.hpp"

#include "backends.hpp"
#include "core/commit.hpp"
#include "image/versions.hpp"

namespace fovea {

BuildInfo build_info() {
  return {.version = FOVEA_VERSION,
          .commit = built_from_commit,
          .build_type = FOVEA_BUILD_TYPE,
          .instruction_set = cpu_instruction_set(),
          .libraries = image::library_versions()};
}

}  // namespace fovea
