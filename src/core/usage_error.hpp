// UsageError: the caller has named something that does not exist.
#pragma once

#include <utility>

#include <fmt/format.h>

#include "fovea/error.hpp"

namespace fovea {

/// A name that the caller gave, of a kernel or an instruction set for example, denotes nothing. The
/// command line then exits as it does for an unknown option.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Throws fovea::UsageError with a message made by fmt::format.
template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fovea
