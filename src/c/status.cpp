// The last error of each thread.
#include "c/status.hpp"

#include <string>

namespace fovea::c {
namespace {

thread_local std::string last_error;

}  // namespace

void set_last_error(std::string_view message) noexcept {
  try {
    last_error.assign(message);
  } catch (...) {
    last_error = "out of memory";  // short enough to need none
  }
}

}  // namespace fovea::c

const char* fovea_last_error(void) {
  return fovea::c::last_error.c_str();
}

const char* fovea_version(void) {
  return FOVEA_VERSION;
}
