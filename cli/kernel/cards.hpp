// The cards, GPUs and sources that the options of several commands of `fovea kernel` name.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::cli::kernel {

using OpenGpu = std::function<std::unique_ptr<gpu::Device>(int index)>;

/// Opens a GPU. Without one, throws a fovea::Error that names the commands that need none.
[[nodiscard]] std::unique_ptr<gpu::Device> open_gpu(
    int index, const OpenGpu& open = [](int gpu) { return gpu::open_cuda_device(gpu); });

/// The same, but null where there is none.
[[nodiscard]] std::unique_ptr<gpu::Device> open_gpu_if_any(int index);

/// The architecture of --device: "emu:sm_80".
[[nodiscard]] int arch_of_emulator(const std::string& emulator);

/// Throws fovea::Error unless the command was given one card.
[[nodiscard]] const lab::Card& only_card(std::span<const std::string> names);

/// The named cards, of which one must have the case; checked before a GPU is opened.
[[nodiscard]] std::vector<const lab::Card*> cards_with_case(std::span<const std::string> names,
                                                            const std::string& case_name);

/// The named cards, each of which must have the case and the level.
[[nodiscard]] std::vector<const lab::Card*> cards_with_level(std::span<const std::string> names,
                                                             const std::string& case_name,
                                                             const std::string& level);

/// The sources of the folder, or the program's own.
[[nodiscard]] lab::KernelSources kernel_sources_of(const std::string& folder);

/// The path of this program, for child processes that run it.
[[nodiscard]] std::string own_program();

/// Prints a line of `fovea kernel check`.
void print_check(const lab::CheckResult& result);

}  // namespace fovea::cli::kernel
