// Result of a check: allowed, or refused with a reason.
#pragma once

#include <string>

namespace emu {

struct [[nodiscard]] CheckResult {
  std::string reason{};  // phrase for a finding; empty if allowed

  explicit operator bool() const { return reason.empty(); }
  /// Runs the next check if this one has passed.
  template <typename Check>
  [[nodiscard]] CheckResult and_then(Check&& check) const {
    return reason.empty() ? check() : *this;
  }
};

}  // namespace emu
