// Checks of the compiler's output: registers, memory, and machine instructions.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/kernel_image.hpp"
#include "lab/cards/card.hpp"
#include "lab/code/regions.hpp"

namespace fovea::lab {

/// A compiled kernel and the limits that it exceeds.
struct ImageReport {
  const gpu::KernelImage* image = nullptr;
  std::vector<std::string> faults;  // "210 registers, 168 allowed"
  // The following members are set once the machine code has been read.
  int instructions = 0;
  InstructionCounts counts;
  std::map<std::string, InstructionCounts>
      regions;                               // counts per role and per region of the sources
  std::shared_ptr<const LinedKernel> lined;  // set if the regions of the sources were counted
};

/// Checks every image of these cards (or of the whole program if `cards` is empty) against the
/// strictest of the limits that cards set for it. Spills and local memory are always faults.
[[nodiscard]] std::vector<ImageReport> check_resources(std::span<const Card* const> cards,
                                                       std::span<const gpu::KernelImage> images);

/// Counts each instruction in a disassembler's listing by its full name ("LDG.E.128").
[[nodiscard]] InstructionCounts count_instructions(std::string_view disassembly);

/// Returns the faults in an image's instruction counts, given what its cards demand.
[[nodiscard]] std::vector<std::string> check_instructions(std::span<const Card* const> cards,
                                                          const gpu::KernelImage& image,
                                                          const InstructionCounts& instructions);

/// Disassembles the images on all CPUs, and checks their instructions against the cards' demands.
/// Calls `report` for each image, ordered by architecture and then by position, while other images
/// are still being read. If `by_line`, also checks the regions in the sources of kernels whose
/// cards have demands on them. Throws fovea::Error if nvdisasm is not found.
void check_machine_code(std::span<const Card* const> cards,
                        std::span<const gpu::KernelImage> images, bool by_line,
                        const std::function<void(const ImageReport&)>& report);
/// Compiles and checks the kernels from these sources; each kernel takes seconds.
void check_machine_code(std::span<const Card* const> cards,
                        std::span<const gpu::KernelImage> images, const KernelSources& sources,
                        const std::function<void(const ImageReport&)>& report);

/// Returns the control-flow graph of a kernel with its roles in graphviz's dot language; the cards
/// define the roles.
[[nodiscard]] std::string control_flow_graph(std::span<const Card* const> cards,
                                             const gpu::KernelImage& image);

[[nodiscard]] std::string to_json(const ImageReport& report);

}  // namespace fovea::lab
