// start_thread: starts a thread, or throws a ResourceError.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.hpp"

namespace fovea {

/// Starts a thread that runs `body`. Throws ResourceError when the system cannot start it;
/// `purpose` completes the message "cannot start the thread that ...".
template <typename Body>
[[nodiscard]] std::thread start_thread(std::string_view purpose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    fail_for_resources("cannot start the thread that {}: {}; use fewer threads", purpose,
                       error.what());
  }
}

}  // namespace fovea
