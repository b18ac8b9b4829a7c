// Functions of CUDA's runtime and driver in whose place the emulator does not stand: each says its
// name. The build makes a source with one for each name in entry_points.txt, and the linker takes
// it where no other source has a function of that name.
#pragma once

namespace fovea::programs {

/// Tells that the program has called this function. Returns the error code.
[[nodiscard]] int report_absent(const char* name);

}  // namespace fovea::programs

#define FOVEA_ABSENT(name)                                          \
  extern "C" [[gnu::weak, gnu::visibility("default")]] int name() { \
    return fovea::programs::report_absent(#name);                   \
  }
