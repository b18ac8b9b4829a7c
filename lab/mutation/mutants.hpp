// Mutants of a kernel's PTX: one instruction that synchronises threads or copies, or that computes
// a memory location, is deleted or altered.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/device.hpp"

namespace fovea::mutation {

/// One change to one kernel.
struct PtxMutant {
  std::string kernel;
  std::string kind;       // "no wgmma.fence", "parity flipped"
  int line = 0;           // line of the PTX; 0: a tensor map is changed
  std::string source{};   // "file.cuh:12", if the PTX has line information
  std::string change{};   // the original text, and its replacement
  std::size_t begin = 0;  // offset of the replaced text
  std::size_t length = 0;
  std::string replacement{};
  int tensor_map =
      -1;  // number, from 0, among those that are encoded for it; -1: it is of the text

  /// Returns the mutated PTX, in which all lines keep their numbers.
  [[nodiscard]] std::string applied(std::string_view ptx) const;
};

/// Returns all mutants of a kernel's PTX, in the order of its instructions:
/// - deleted: fences, waits, arrivals, barriers, and commits of groups;
/// - a wait for groups leaves one more group pending, a wait for a phase has the other parity;
/// - an mbarrier awaits one arrival more or fewer, or 16 bytes more or fewer;
/// - a named barrier has an unused number, or that of another group of threads, or a warp more or
///   fewer;
/// - a field of a matrix descriptor differs: start, both offsets, swizzle;
/// - an xor with a number below 1024, of an address for example, is dropped.
/// Throws fovea::Error when the text has no such kernel.
[[nodiscard]] std::vector<PtxMutant> mutants_of(std::string_view ptx, std::string_view kernel);

/// Returns the mutant in which the tensor map with that number has another swizzle.
[[nodiscard]] PtxMutant tensor_map_mutant(std::string_view kernel, int number);
/// Removes the swizzle from a map, or adds one that its box allows; returns false and changes
/// nothing if there is none.
bool change_swizzle(gpu::TensorMapDesc& map);

}  // namespace fovea::mutation
