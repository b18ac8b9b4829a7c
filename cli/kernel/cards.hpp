// Functions that find the cards, GPUs and sources named by options of `fovea kernel`.
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

/// Opens a GPU; returns null when there is none.
[[nodiscard]] std::unique_ptr<gpu::Device> try_open_gpu(int index);

/// Returns the architecture of a --device such as "emu:sm_80".
[[nodiscard]] int emulator_arch(const std::string& emulator);

/// Returns the card. Throws fovea::Error unless exactly one is named.
[[nodiscard]] const lab::Card& single_card(std::span<const std::string> names);

/// Returns the named cards. Throws fovea::Error unless at least one of them has the case. Called
/// before a GPU is opened.
[[nodiscard]] std::vector<const lab::Card*> cards_with_case(std::span<const std::string> names,
                                                            const std::string& case_name);

/// Returns the named cards. Throws fovea::Error unless each of them has the case and the level.
[[nodiscard]] std::vector<const lab::Card*> cards_with_level(std::span<const std::string> names,
                                                             const std::string& case_name,
                                                             const std::string& level);

/// Returns the kernel sources in the folder, or the program's own if `folder` is empty.
[[nodiscard]] lab::KernelSources load_kernel_sources(const std::string& folder);

/// Returns the path of this program, for child processes that run it.
[[nodiscard]] std::string current_program();

/// Prints a line of `fovea kernel check`.
void print_check(const lab::CheckResult& result);

}  // namespace fovea::cli::kernel
