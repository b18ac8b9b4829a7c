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

/// Sets the wording of messages to that of C, unless another one has been set.
void use_c_wording() noexcept;

/// Stores the message of the exception being handled as this thread's fovea_last_error.
void set_last_error() noexcept;

/// Passes `note` to the handler set with fovea_set_note_handler, if any.
void send_note(const std::string& note);

/// Throws fovea::Error when `pointer` is null; `what` names it: "rows".
inline void require_pointer(const void* pointer, std::string_view what) {
  if (pointer == nullptr) {
    fail("{} is NULL", what);
  }
}

/// The same for several pointers.
inline void require_pointers(
    std::initializer_list<std::pair<const void*, std::string_view>> pointers) {
  for (const auto& [pointer, what] : pointers) {
    require_pointer(pointer, what);
  }
}

/// Returns a span of `count` elements; the pointer may be NULL when `count` is 0.
template <typename T>
[[nodiscard]] std::span<T> checked_span(T* elements, std::size_t count, std::string_view what) {
  if (count > 0) {
    require_pointer(elements, what);
  }
  return {elements, count};
}

/// Returns count * width. Throws fovea::Error when so many values cannot fit into memory; `what`
/// names the vectors, for example "queries".
[[nodiscard]] inline std::size_t value_count(std::size_t count, std::size_t width,
                                             std::string_view what) {
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / (width * sizeof(float))) {
    fail("not enough memory for {} {}", count, what);
  }
  return count * width;
}

/// Returns query(object), or `fallback` when the object is NULL, for functions that return no
/// status.
template <typename Object, typename Query>
auto query_or(Object* object, std::invoke_result_t<Query, Object&> fallback, Query&& query) {
  return object == nullptr ? fallback : query(*object);
}

/// Runs `body`; what it throws becomes the thread's last error. No exception leaves a C function.
template <typename Body>
fovea_status guarded(Body&& body) noexcept {
  use_c_wording();
  try {
    body();
    return FOVEA_OK;
  } catch (...) {
    set_last_error();
  }
  return FOVEA_FAILED;
}

}  // namespace fovea::c
