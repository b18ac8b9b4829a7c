// The only exception type that the public API throws.
#pragma once

#include <stdexcept>
#include <string>

namespace [[gnu::visibility("default")]] fovea {

/// Thrown by every public function that fails. `what()` describes the error,
/// where it occurred (file, tensor name, shape, byte offset), and what to do about it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace fovea
