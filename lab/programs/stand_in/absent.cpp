// Functions of CUDA's runtime and driver in whose place the emulator does not stand: each says its
// name. There is one for each name in entry_points.txt, and the linker takes it where no other source
// has a function of that name.
#include <fmt/format.h>

#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {

int report_absent(const char* name) {
  return runtime_call(name, [](Gpu&) {
    throw CallError{kNotSupported, "the emulator has no such function"};
  });
}

}  // namespace fovea::programs

#define FOVEA_ABSENT(name)                                                \
  extern "C" [[gnu::weak, gnu::visibility("default")]] int name() {      \
    return fovea::programs::report_absent(#name);                        \
  }
#include "absent_entry_points.inc"
