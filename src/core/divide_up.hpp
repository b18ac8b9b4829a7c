// Division that rounds up: how many parts of a size cover a length.
#pragma once

#include <cstdint>

namespace fovea {

/// The least n with n * `part` >= `whole`; `whole` >= 0, `part` > 0.
[[nodiscard]] constexpr std::int64_t divide_up(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

}  // namespace fovea
