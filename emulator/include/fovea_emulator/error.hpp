// Exceptions of the emulator: the PTX cannot be read or a call has invalid arguments. Errors of a
// kernel are reported as a Finding.
#pragma once

#include <stdexcept>

namespace [[gnu::visibility("default")]] emu {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown when a module would take more memory than allowed.
class TooLarge : public Error {
 public:
  using Error::Error;
};

}  // namespace emu
