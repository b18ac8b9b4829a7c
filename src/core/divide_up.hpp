// Integer division that rounds up.
#pragma once

#include <cstdint>

namespace fovea {

/// Returns the smallest n with n * `part` >= `whole`; `whole` >= 0, `part` > 0.
[[nodiscard]] constexpr std::int64_t divide_up(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

}  // namespace fovea
