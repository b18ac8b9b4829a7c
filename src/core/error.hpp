// Raising fovea::Error with a formatted message, and two kinds of it that callers tell apart.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

#include "fovea/error.hpp"

namespace fovea {

/// The machine lacks memory, file descriptors or threads. No input is to blame, so this ends a job,
/// while any other error only makes the input a failed one.
class ResourceError : public Error {
 public:
  using Error::Error;
};

/// The caller has asked the work to stop. No input has failed.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// Throws fovea::Error with a message made by fmt::format.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws fovea::ResourceError with a message made by fmt::format.
template <typename... Args>
[[noreturn]] void fail_for_resources(fmt::format_string<Args...> format, Args&&... args) {
  throw ResourceError(fmt::format(format, std::forward<Args>(args)...));
}

/// Call this where an error is caught to be given another message or to blame an input: throws
/// it again when it is one of the two kinds above.
inline void rethrow_unless_finding(const Error& error) {
  if (dynamic_cast<const ResourceError*>(&error) != nullptr ||
      dynamic_cast<const Interrupted*>(&error) != nullptr) {
    throw;
  }
}

/// What people are told of the exception being handled, of any kind: the standard library's own
/// words would be "vector::reserve".
[[nodiscard]] std::string words_of_current_exception();

}  // namespace fovea
