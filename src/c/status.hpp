// Turns exceptions into status codes.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "core/error.hpp"
#include "fovea/c/status.h"

namespace fovea::c {

/// Messages are written for C from here on, unless somebody has chosen their wording.
void speak_c() noexcept;

/// Makes of the exception being handled what fovea_last_error gives in this thread.
void set_last_error() noexcept;

/// Gives `note` to the handler that fovea_set_note_handler has set, if there is one.
void tell(const std::string& note);

/// Throws fovea::Error when `pointer` is null; `what` names it: "rows".
template <typename T>
void require_pointer(T* pointer, std::string_view what) {
  if (pointer == nullptr) {
    fail("{} is NULL", what);
  }
}

/// What `ask` says of an object; `nothing` when there is none: a function without a status has no
/// other way to answer for NULL.
template <typename Object, typename Ask>
auto answer(Object* object, std::invoke_result_t<Ask, Object&> nothing, Ask&& ask) {
  return object == nullptr ? nothing : ask(*object);
}

/// Runs `body`; what it throws becomes the thread's last error. No exception leaves a C function.
template <typename Body>
fovea_status guarded(Body&& body) noexcept {
  speak_c();
  try {
    body();
    return FOVEA_OK;
  } catch (...) {
    set_last_error();
  }
  return FOVEA_FAILED;
}

}  // namespace fovea::c
