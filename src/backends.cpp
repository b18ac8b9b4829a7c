// The composition root: device names to backends.
#include "backends.hpp"

#include "core/error.hpp"
#include "cpu/backend.hpp"

namespace fovea {

std::unique_ptr<ops::Backend> make_backend(const EncoderOptions& options) {
  if (options.device != "auto" && options.device != "cpu") {
    fail("device '{}' is unknown; use auto or cpu", options.device);
  }
  if (options.threads < 0) {
    fail("{} threads cannot be; 0 takes one for each CPU", options.threads);
  }
  return cpu::make_cpu_backend({.precision = options.precision, .threads = options.threads});
}

}  // namespace fovea
