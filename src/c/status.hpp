// Turns exceptions into status codes.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "fovea/c/status.h"

namespace fovea::c {

/// Messages are written for C from here on, unless their wording has been chosen.
void speak_c() noexcept;

/// Makes of the exception being handled what fovea_last_error gives in this thread.
void set_last_error() noexcept;

/// Gives `note` to the handler that fovea_set_note_handler has set, if there is one.
void tell(const std::string& note);

/// Throws fovea::Error when `pointer` is null; `what` names it: "rows".
inline void require_pointer(const void* pointer, std::string_view what) {
  if (pointer == nullptr) {
    fail("{} is NULL", what);
  }
}

/// The same of several.
inline void require_pointers(
    std::initializer_list<std::pair<const void*, std::string_view>> pointers) {
  for (const auto& [pointer, what] : pointers) {
    require_pointer(pointer, what);
  }
}

/// `count` elements, which may be NULL when there are none.
template <typename T>
[[nodiscard]] std::span<T> array_of(T* elements, std::size_t count, std::string_view what) {
  if (count > 0) {
    require_pointer(elements, what);
  }
  return {elements, count};
}

/// Numbers in `count` vectors of `width`. Throws fovea::Error when no memory holds them; `what`
/// names the vectors: "queries".
[[nodiscard]] inline std::size_t numbers_in(std::size_t count, std::size_t width,
                                            std::string_view what) {
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / (width * sizeof(float))) {
    fail("{} {} are more than memory has room for", count, what);
  }
  return count * width;
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
