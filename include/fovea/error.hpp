// The one exception type that crosses Fovea's public API.
#pragma once

#include <stdexcept>
#include <string>

namespace [[gnu::visibility("default")]] fovea {

/// Thrown by every public function that cannot do what was asked. `what()` says what was wrong,
/// where (file, tensor name, shape, byte offset), and what to do about it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace fovea
