// Mutants of a kernel's PTX, in each of which one instruction is deleted or altered that
// synchronises threads or copies, or that computes a memory location.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/device.hpp"

namespace fovea::mutation {

/// A change to a kernel.
struct PtxMutant {
  std::string kernel;
  std::string kind;       // "no wgmma.fence", "parity flipped"
  int line = 0;           // line of the PTX; 0 for changes to a tensor map
  std::string source{};   // "file.cuh:12", if the PTX has line information
  std::string change{};   // the original text, and its replacement
  std::size_t begin = 0;  // offset of the replaced text
  std::size_t length = 0;
  std::string replacement{};
  /// Index of the changed tensor map, in the order of encoding; -1 for changes to the PTX.
  int tensor_map = -1;

  /// Returns the mutated PTX, with unchanged line numbers.
  [[nodiscard]] std::string applied(std::string_view ptx) const;
};

/// Returns all mutants of a kernel's PTX, in the order of its instructions. In each of them, one of
/// these changes is made:
/// - a fence, wait, arrival, barrier or commit of a group is deleted;
/// - a wait for groups leaves one more group pending, a wait for a phase has the other parity;
/// - an mbarrier awaits one arrival more or fewer, or 16 bytes more or fewer;
/// - a named barrier has another number (an unused one, or that of another group of threads), or
///   counts a warp more or fewer;
/// - a field of a matrix descriptor differs: start, both offsets, swizzle;
/// - an xor with a number below 1024, for example of an address, is dropped. Throws fovea::Error if
/// the text has no such kernel.
[[nodiscard]] std::vector<PtxMutant> make_mutants(std::string_view ptx, std::string_view kernel);

/// Returns the mutant in which the tensor map with this index has another swizzle.
[[nodiscard]] PtxMutant tensor_map_mutant(std::string_view kernel, int number);
/// Removes the swizzle from a map, or adds one if its box allows it. Returns whether the map was
/// changed.
bool change_swizzle(gpu::TensorMapDesc& map);

}  // namespace fovea::mutation
