// Support: whether something can be done; true, or why not.
#pragma once

#include <string>

namespace fovea {

struct [[nodiscard]] Support {
  std::string why{};  // it cannot be done, in words for people; empty when it can

  explicit operator bool() const { return why.empty(); }
};

}  // namespace fovea
