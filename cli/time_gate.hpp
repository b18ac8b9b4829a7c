// --against, by which `bench` and `kernel bench` fail when something became slower.
#pragma once

#include <span>
#include <string>

#include <CLI/App.hpp>

#include "gpu/device/device.hpp"
#include "lab/measure/bench_cards.hpp"
#include "lab/measure/time_gate.hpp"

namespace fovea::cli {

/// Measures the peak rates of the GPU. Prints a note for each that could not be measured.
[[nodiscard]] lab::Ceilings ceilings_of(gpu::Device& device);

CLI::Option* add_against(CLI::App& command, std::string& against);

/// Loads the earlier figures for this GPU that --against names; by default, those committed in the
/// source tree of this build, or none, with a note, when it has none. `gpu` is "" without a GPU;
/// then there are none. Throws fovea::Error when --against names a place without figures, or there
/// is no GPU.
[[nodiscard]] lab::EarlierFigures earlier_figures_of(const std::string& against,
                                                     const std::string& gpu);

/// Returns whether the gate is passed: nothing is slower and, with --against, at least one figure
/// could be judged. Prints the changes as a table when `prints`.
[[nodiscard]] bool pass_time_gate(std::span<const lab::TimeChange> changes,
                                  const std::string& against, bool prints);

}  // namespace fovea::cli
