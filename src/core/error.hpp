// Functions that throw fovea::Error with a formatted message, and subclasses that callers
// distinguish.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

#include "fovea/error.hpp"

namespace fovea {

/// The machine lacks memory, file descriptors or threads. This ends a job, because it is not the
/// fault of an input; after any other error, only the input counts as failed.
class ResourceError : public Error {
 public:
  using Error::Error;
};

/// Thrown when the caller has asked the work to stop; no input has failed.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// The caller has named something that does not exist, such as a kernel or an instruction set. The
/// command line then exits as it does for an unknown option.
class UsageError : public Error {
 public:
  using Error::Error;
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

/// Throws fovea::UsageError with a message made by fmt::format.
template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

/// Call this in a catch block that changes the message or marks an input as failed: rethrows the
/// exception if it is a ResourceError or Interrupted.
inline void rethrow_unless_finding(const Error& error) {
  if (dynamic_cast<const ResourceError*>(&error) != nullptr ||
      dynamic_cast<const Interrupted*>(&error) != nullptr) {
    throw;
  }
}

/// Returns a message for users about the exception being handled, whatever its type. Replaces
/// messages of the standard library such as "vector::reserve".
[[nodiscard]] std::string current_exception_message();

}  // namespace fovea
