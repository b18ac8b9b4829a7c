// Counts the instructions compiled from source regions: the lines between `// region: NAME` and `//
// end region`.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/cards/card.hpp"
#include "lab/system/compiler.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::lab {

/// A range of lines in a file, inclusive.
struct LineRange {
  std::string file;  // "kernels/gemm/sm90_cooperative.cuh"
  int first = 0;
  int last = 0;
};
using RegionLines = std::map<std::string, std::vector<LineRange>>;

/// Finds the regions marked in the sources. Throws fovea::Error at a region without an end, an end
/// without a region, or a nested region.
[[nodiscard]] RegionLines find_regions(const std::map<std::string, std::string>& files);

/// Number of occurrences of each instruction by its full name: "LDG.E.128".
using InstructionCounts = std::map<std::string, int>;

/// Returns how often an instruction occurs, including its variants: "LDG" counts "LDG.E.128".
[[nodiscard]] int count_instruction(const InstructionCounts& counts, std::string_view instruction);

/// Counts the instructions that were compiled from each region's lines or inlined into them, in a
/// listing made by nvdisasm -gi. Empty if the listing has no line information.
[[nodiscard]] std::map<std::string, InstructionCounts> count_by_region(std::string_view listing,
                                                                       const RegionLines& regions);

/// Returns a message for each demand that the region's instructions violate.
[[nodiscard]] std::vector<std::string> check_demands(const RegionLimits& limits,
                                                     const ParameterValues& values,
                                                     const InstructionCounts& instructions);

/// A kernel's machine code with line information.
struct LinedKernel {
  std::string compiler{};  // "nvcc 13.0"; empty if the embedded code has line information
  bool same = true;        // whether its instructions equal those of the embedded code
  gpu::KernelImage image{};
  std::map<std::string, InstructionCounts> regions{};
  CompiledKernel compiled{};  // owns the image's code if it was compiled
};

/// Returns the images of one unit with line information: the embedded code if it has line
/// information, else code that ptxas assembles from the PTX. Throws fovea::Error if ptxas is not
/// found.
[[nodiscard]] std::vector<LinedKernel> with_lines(std::span<const gpu::KernelImage* const> unit);
/// Compiles the kernel from these sources with line information. Throws fovea::Error if no compiler
/// is found.
[[nodiscard]] LinedKernel with_lines(const gpu::KernelImage& image, const KernelSources& sources);

}  // namespace fovea::lab
