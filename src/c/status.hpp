// From exceptions to status codes.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "fovea/c/status.h"

namespace fovea::c {

/// Makes `message` what fovea_last_error gives in this thread.
void set_last_error(std::string_view message) noexcept;

/// Gives `note` to the handler that fovea_set_note_handler has set, if there is one.
void tell(const std::string& note);

/// Throws fovea::Error when `pointer` is null; `what` names it: "rows".
template <typename T>
void require_pointer(T* pointer, std::string_view what) {
  if (pointer == nullptr) {
    fail("{} is NULL", what);
  }
}

/// Runs `body`; what it throws becomes the thread's last error. No exception leaves a C function.
template <typename Body>
fovea_status guarded(Body&& body) noexcept {
  try {
    body();
    return FOVEA_OK;
  } catch (const std::exception& error) {
    set_last_error(error.what());
  } catch (...) {
    set_last_error("unknown error");
  }
  return FOVEA_FAILED;
}

}  // namespace fovea::c
