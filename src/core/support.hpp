// Support: whether an operation is supported; if not, the reason.
#pragma once

#include <string>

namespace fovea {

struct [[nodiscard]] Support {
  std::string why{};  // reason for users; empty when supported

  explicit operator bool() const { return why.empty(); }
};

}  // namespace fovea
