// Whether something is allowed, or the reason why it is not.
#pragma once

#include <string>

namespace emu {

struct [[nodiscard]] Support {
  std::string reason{};  // a phrase for a finding; empty: it is allowed

  explicit operator bool() const { return reason.empty(); }
  /// Goes on with another check where this one allows it.
  template <typename Check>
  [[nodiscard]] Support and_then(Check&& check) const {
    return reason.empty() ? check() : *this;
  }
};

}  // namespace emu
