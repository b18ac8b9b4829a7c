// Frame of a call: what lanes that have called a function need until they return.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/machine/partial_values.hpp"
#include "emulator/program/lanes.hpp"
#include "emulator/program/program.hpp"

namespace emu {

struct CallFrame {
  const Call* call = nullptr;
  std::int32_t function = 0;               // number in Program::functions
  const CallFrame* caller = nullptr;       // frame of the split that waits; null: the kernel
  std::array<std::size_t, kLanes> base{};  // address of the frame in each lane's local memory
  std::array<std::size_t, kLanes> previous_top{};
  /// Lanes that have called the function from within itself, and what its registers held.
  Lanes saved_lanes = 0;
  std::vector<std::uint32_t> saved{};
  PartialValues saved_partial_values{};
};

}  // namespace emu
