// The option --against, with which `bench` and `kernel bench` fail when a time has become longer.
#pragma once

#include <span>
#include <string>

#include <CLI/App.hpp>

#include "gpu/device/device.hpp"
#include "lab/measure/bench_cards.hpp"
#include "lab/measure/time_gate.hpp"

namespace fovea::cli {

/// Measures the peak rates of the GPU. Prints a note for each that could not be measured.
[[nodiscard]] lab::Ceilings measure_gpu_ceilings(gpu::Device& device);

CLI::Option* add_against(CLI::App& command, std::string& against);

/// Loads the earlier figures for this GPU that --against names. Without --against, loads those
/// committed in the source tree of this build, if there are any, and prints a note if there are
/// none. `gpu` is "" without a GPU, for which there are no figures. Throws fovea::Error when
/// --against names a place without figures, or there is no GPU.
[[nodiscard]] lab::EarlierFigures load_earlier_figures(const std::string& against,
                                                       const std::string& gpu);

/// Returns whether the gate is passed: no time is longer and, with --against, at least one could be
/// judged. Prints the changes as a table if `prints`.
[[nodiscard]] bool pass_time_gate(std::span<const lab::TimeChange> changes,
                                  const std::string& against, bool prints);

}  // namespace fovea::cli
