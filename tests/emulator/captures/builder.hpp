// The text of micro-kernels: what they have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/captures/micro_kernel.hpp"
#include "emulator/captures/values.hpp"

namespace captures {

/// Puts a name's value for each {name}: "{d}" -> "%r10".
std::string replaced(std::string text, std::string_view what, std::string_view by);

/// A kernel `micro` with this body. Before it, %rd1, %rd2, ... are the buffers' addresses, inputs
/// first, %r1 is the thread, %r2 the block, %r3 the thread among those of all blocks. The body has
/// %p0-%p15, %h0-%h31 (16 bits), %r10-%r399, %rd10-%rd99. Fills kernel.ptx in.
void set_text(MicroKernel& kernel, std::string_view body, std::string_view variables = "");

/// Loads of `bytes` from global memory at `from` to shared memory at `to` (a 32-bit register), 16
/// at a time by all threads of the block (a power of two); with registers from %r380 and %rd80 on.
std::string copy_to_shared(std::string_view from, std::string_view to, std::size_t bytes,
                           std::uint32_t threads, std::string_view label);
/// The other way round.
std::string copy_from_shared(std::string_view from, std::string_view to, std::size_t bytes,
                             std::uint32_t threads, std::string_view label);

/// An operand that each lane has one of.
struct LaneOperand {
  int bits = 32;  // 1: a predicate, which memory has 32 bits of
  Fill fill = nullptr;
};

/// What one lane's operation gives of its operands, as bits.
using LaneModel = std::function<std::uint64_t(const std::array<std::uint64_t, 4>& operands)>;

/// An operation of each lane. In its text, $d is the result and $a, $b, $c, $e the operands.
struct LaneOperation {
  std::string name{};
  std::string family{};
  std::string text{};
  int result_bits = 32;
  std::vector<LaneOperand> operands{};
  std::size_t count = 4096;
  Tolerance tolerance{};
  LaneModel model{};
  Tolerance model_tolerance{};
};
void add_lane_operation(MicroKernels& to, const LaneOperation& operation);

}  // namespace captures
