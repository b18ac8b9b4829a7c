// Gates on what the compiler made: registers, memory, and the instructions of the machine code.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/kernel_image.hpp"
#include "lab/card.hpp"

namespace fovea::lab {

/// A compiled kernel and what is over its limits.
struct ImageReport {
  const gpu::KernelImage* image = nullptr;
  int instructions = 0;             // when the machine code was read
  std::vector<std::string> faults;  // "210 registers, 168 allowed"
};

/// Every image of these cards (of the whole program without names) against the strictest limits
/// that a card sets for it. Spills and local memory are faults of any kernel.
[[nodiscard]] std::vector<ImageReport> check_resources(std::span<const Card* const> cards,
                                                       std::span<const gpu::KernelImage> images);

/// How often each instruction occurs, by its full name ("LDG.E.128"), in a disassembler's text.
[[nodiscard]] std::map<std::string, int> count_instructions(std::string_view disassembly);

/// Faults of an image's instructions, as counted, against what its cards demand.
[[nodiscard]] std::vector<std::string> check_instructions(
    std::span<const Card* const> cards, const gpu::KernelImage& image,
    const std::map<std::string, int>& instructions);

/// Disassembles the images, on all CPUs, and holds their instructions against the cards' demands.
/// `report` is called for one image after the other, by architecture and then in their order, while
/// others are still being read. Throws fovea::Error when nvdisasm is not on the PATH.
void check_machine_code(std::span<const Card* const> cards,
                        std::span<const gpu::KernelImage> images,
                        const std::function<void(const ImageReport&)>& report);

}  // namespace fovea::lab
