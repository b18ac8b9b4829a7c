// Mutants of a kernel's PTX: one instruction deleted or altered, of those that keep threads and
// copies in order or say where something lies.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/device.hpp"

namespace fovea::mutation {

/// One change of one kernel.
struct PtxMutant {
  std::string kernel;
  std::string kind;       // "no wgmma.fence", "parity flipped"
  int line = 0;           // of the PTX; 0: of a tensor map
  std::string source{};   // "file.cuh:12", where the compiler says it
  std::string change{};   // what stands there, and what instead
  std::size_t begin = 0;  // in the text, what is replaced
  std::size_t length = 0;
  std::string replacement{};
  int tensor_map =
      -1;  // number, from 0, among those that are encoded for it; -1: it is of the text

  /// The text of the mutant, with all lines where they were.
  [[nodiscard]] std::string applied(std::string_view ptx) const;
};

/// All of a kernel's text, in its order, those of one instruction one after the other:
/// - deleted: fences, waits, arrivals, barriers, and commits of groups;
/// - a wait for groups leaves one more of them, a wait for a phase has the other parity;
/// - an mbarrier awaits one arrival more or fewer, or 16 bytes more or fewer;
/// - a barrier of some threads has another number, or one that other groups have, or a warp more or
///   fewer;
/// - a field of a matrix descriptor differs: start, both offsets, swizzle;
/// - an xor of an address, or of anything else with a number below 1024, does not happen.
/// Throws fovea::Error when the text has no such kernel.
[[nodiscard]] std::vector<PtxMutant> mutants_of(std::string_view ptx, std::string_view kernel);

/// The mutant in which the tensor map of that number has another swizzle.
[[nodiscard]] PtxMutant tensor_map_mutant(std::string_view kernel, int number);
/// Takes the swizzle from a map, or gives it one that its box allows; false, and nothing is
/// changed, where there is none.
bool change_swizzle(gpu::TensorMapDesc& map);

}  // namespace fovea::mutation
