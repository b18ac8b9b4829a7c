// Repeats one schedule of a case on the emulator, to reproduce a failure that `check` found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea_emulator/finding.hpp"
#include "fovea_emulator/trace.hpp"
#include "kernels/archs.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/check_cards.hpp"

namespace fovea::lab {

struct ReplayOptions {
  int arch = gpu::kDefaultArch;  // an emulated architecture
  std::string case_name{};       // empty: the card's first case that is quick to emulate
  std::string plan{};            // as printed by `bench --plans`; empty: the launcher's choice
  std::uint64_t seed = 1;        // seed of check_emulated()
  int schedule = 0;              // number of the schedule, from 0
  bool overlapping = false;      // run behind grids that it may overlap with
  emu::TraceFunction trace{};
};

struct Replay {
  CheckResult result;
  std::vector<emu::Finding> findings{};  // the emulator's findings if they made the case fail
};

/// Runs the case with one of the schedules of check_emulated(). Compares the outputs with the
/// expected values, and the outputs of later schedules with those of the first one. Overlapping
/// grids are only checked for findings. Throws fovea::Error if the case or the plan is unknown or
/// cannot run.
[[nodiscard]] Replay replay_case(const Card& card, const ReplayOptions& options);

/// Returns the command-line arguments that repeat it: "layer_norm --case rows3_width768 --seed 1
/// --schedule 2".
[[nodiscard]] std::string replay_arguments(const std::string& card, const ReplayOptions& options);

}  // namespace fovea::lab
