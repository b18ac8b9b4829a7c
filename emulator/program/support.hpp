// Whether something is allowed, or the reason why it is not.
#pragma once

#include <string>

namespace emu {

struct [[nodiscard]] Support {
  std::string reason{};  // a phrase for a finding; empty: it is allowed

  explicit operator bool() const { return reason.empty(); }
};

}  // namespace emu
