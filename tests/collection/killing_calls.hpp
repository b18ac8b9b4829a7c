// System calls that change folders, of which one ends the process.
#pragma once

#include <functional>

namespace fovea::collection::testing {

/// Runs `body` in a process of its own that ends, as if it were killed, before its call number
/// `call` (from 0) of rename, unlink or mkdir, whoever makes it. Whether it got that far; otherwise
/// `body` has come to its end. Fails the test when the process ended in another way.
[[nodiscard]] bool is_killed_at(int call, const std::function<void()>& body);

}  // namespace fovea::collection::testing
