// What the emulator throws: the text cannot be read or the call makes no sense. What a kernel does
// wrong is a Finding.
#pragma once

#include <stdexcept>

namespace [[gnu::visibility("default")]] emu {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What is asked for takes more memory than it may.
class TooLarge : public Error {
 public:
  using Error::Error;
};

}  // namespace emu
