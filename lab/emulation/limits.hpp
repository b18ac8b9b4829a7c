// The largest numbers that a launch file may hold.
#pragma once

#include <cstdint>
#include <limits>

namespace fovea::emulation {

constexpr std::uint64_t kMostNumber = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40U;  // of a buffer

}  // namespace fovea::emulation
