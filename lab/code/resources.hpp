// Gates on what the compiler made: registers, memory, and the instructions of the machine code.
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

/// A compiled kernel and what is over its limits.
struct ImageReport {
  const gpu::KernelImage* image = nullptr;
  std::vector<std::string> faults;  // "210 registers, 168 allowed"
  // When the machine code was read:
  int instructions = 0;
  InstructionCounts counts;
  std::map<std::string, InstructionCounts> regions;  // by role, and by region of the sources
  std::shared_ptr<const LinedKernel> lined;          // when those of the sources were counted
};

/// Every image of these cards (of the whole program without names) against the strictest limits
/// that a card sets for it. Spills and local memory are faults of any kernel.
[[nodiscard]] std::vector<ImageReport> check_resources(std::span<const Card* const> cards,
                                                       std::span<const gpu::KernelImage> images);

/// How often each instruction occurs, by its full name ("LDG.E.128"), in a disassembler's text.
[[nodiscard]] InstructionCounts count_instructions(std::string_view disassembly);

/// Faults of an image's instructions, as counted, against what its cards demand.
[[nodiscard]] std::vector<std::string> check_instructions(std::span<const Card* const> cards,
                                                          const gpu::KernelImage& image,
                                                          const InstructionCounts& instructions);

/// Disassembles the images, on all CPUs, and holds their instructions against the cards' demands.
/// `report` is called for one image after the other, by architecture and then in their order, while
/// others are still being read. `by_line`: also the regions of the sources, of kernels whose cards
/// demand something of them. Throws fovea::Error when nvdisasm is not on the PATH.
void check_machine_code(std::span<const Card* const> cards,
                        std::span<const gpu::KernelImage> images, bool by_line,
                        const std::function<void(const ImageReport&)>& report);
/// The same of what these sources give; one kernel takes seconds.
void check_machine_code(std::span<const Card* const> cards,
                        std::span<const gpu::KernelImage> images, const KernelSources& sources,
                        const std::function<void(const ImageReport&)>& report);

/// The control flow of a kernel as a graph for dot, with its roles; what its cards say of roles.
[[nodiscard]] std::string control_flow_graph(std::span<const Card* const> cards,
                                             const gpu::KernelImage& image);

[[nodiscard]] std::string to_json(const ImageReport& report);

}  // namespace fovea::lab
