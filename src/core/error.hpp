// Raising fovea::Error with a formatted message.
#pragma once

#include <utility>

#include <fmt/format.h>

#include "fovea/error.hpp"

namespace fovea {

/// Throws fovea::Error with a message made by fmt::format.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fovea
