// Exceptions of any kind in words for people.
#pragma once

#include <string>

namespace fovea {

/// What people are told of the exception being handled, also when it is one of the standard
/// library's, whose words are its own: "vector::reserve".
[[nodiscard]] std::string words_of_current_exception();

}  // namespace fovea
