// Functions of CUDA's runtime and driver in whose place the emulator does not stand.
#include "lab/programs/stand_in/absent.hpp"

#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {

int report_absent(const char* name) {
  return runtime_call(
      name, [](Gpu&) { throw CallError{kNotSupported, "the emulator has no such function"}; });
}

}  // namespace fovea::programs
