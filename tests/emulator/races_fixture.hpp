// What an access conflicts with, for tests of the search of races.
#pragma once

#include <optional>

#include "emulator/races/access.hpp"

namespace emu::races {

using Found = std::optional<ConflictKind>;

inline Found kind_of(const std::optional<Conflict>& conflict) {
  return conflict.has_value() ? Found(conflict->kind) : std::nullopt;
}

constexpr Found kClean = std::nullopt;

}  // namespace emu::races
