// Instructions by region of the sources: which machine code was made from the lines between
// `// region: NAME` and `// end region`.
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

/// Lines of a file, both ends included.
struct LineRange {
  std::string file;  // "kernels/gemm/sm90_cooperative.cuh"
  int first = 0;
  int last = 0;
};
using RegionLines = std::map<std::string, std::vector<LineRange>>;

/// The regions that the sources mark. Throws fovea::Error at a region without its end, an end
/// without its region, or a region within another.
[[nodiscard]] RegionLines find_regions(const std::map<std::string, std::string>& files);

/// How often each instruction occurs, by its full name: "LDG.E.128".
using InstructionCounts = std::map<std::string, int>;

/// How often an instruction occurs in any form: "LDG" covers "LDG.E.128".
[[nodiscard]] int count_of(const InstructionCounts& counts, std::string_view instruction);

/// The instructions that were made from each region's lines or inlined into them, from what
/// nvdisasm -gi printed. Empty when the listing has no lines.
[[nodiscard]] std::map<std::string, InstructionCounts> count_by_region(std::string_view listing,
                                                                       const RegionLines& regions);

/// What is wrong with a region's instructions, in words that name it.
[[nodiscard]] std::vector<std::string> check_demands(const RegionLimits& limits,
                                                     const ParameterValues& values,
                                                     const InstructionCounts& instructions);

/// A kernel's machine code with the lines of its sources.
struct LinedKernel {
  std::string compiler{};  // "nvcc 13.0"; empty: the program's own code has the lines
  bool same = true;        // its instructions are those of the program's own code
  gpu::KernelImage image{};
  std::map<std::string, InstructionCounts> regions{};
  CompiledKernel compiled{};  // what `image` points to, of other sources
};

/// Images of this program, of one unit: their own code when that has lines, else what ptxas makes
/// of their PTX. Throws fovea::Error when there is no ptxas.
[[nodiscard]] std::vector<LinedKernel> with_lines(std::span<const gpu::KernelImage* const> unit);
/// What a compiler makes of these sources of the kernel. Throws fovea::Error when there is none.
[[nodiscard]] LinedKernel with_lines(const gpu::KernelImage& image, const KernelSources& sources);

}  // namespace fovea::lab
