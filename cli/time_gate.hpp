// --against, by which `bench` and `kernel bench` fail when something became slower.
#pragma once

#include <span>
#include <string>

#include <CLI/App.hpp>

#include "gpu/device/device.hpp"
#include "lab/measure/bench_cards.hpp"
#include "lab/measure/time_gate.hpp"

namespace fovea::cli {

/// How fast the GPU is by itself. Says what of it could not be measured.
[[nodiscard]] lab::Ceilings ceilings_of(gpu::Device& device);

CLI::Option* add_against(CLI::App& command, std::string& against);

/// The earlier figures that --against names, of this GPU; without it the committed results of the
/// sources that this program was built in. Where those have none it says so. None without a GPU
/// ("" is its name). Throws fovea::Error when what is named has none, or is compared with no GPU.
[[nodiscard]] lab::EarlierFigures earlier_figures_of(const std::string& against,
                                                     const std::string& gpu);

/// What changed, as a table when `prints`, and whether the gate is passed: nothing is slower, and
/// where --against was typed at least one figure could be judged.
[[nodiscard]] bool pass_time_gate(std::span<const lab::TimeChange> changes,
                                  const std::string& against, bool prints);

}  // namespace fovea::cli
