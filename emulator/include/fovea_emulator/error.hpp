// What the emulator throws: the text cannot be read or the call makes no sense. What a kernel does
// wrong is a Finding.
#pragma once

#include <stdexcept>

namespace [[gnu::visibility("default")]] emu {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace emu
