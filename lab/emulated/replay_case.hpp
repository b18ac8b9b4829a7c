// One schedule of a case on the emulator, run again: what `check` found is found again.
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
  int arch = gpu::kDefaultArch;  // one that the emulator has
  std::string case_name{};       // empty: the card's first that is quick there
  std::string plan{};            // as `bench --plans` names it; empty: the launcher's choice
  std::uint64_t seed = 1;        // as check_emulated's
  int schedule = 0;              // number of the schedule, from 0
  bool overlapping = false;      // behind grids that it may overlap with, instead of alone
  emu::TraceFunction trace{};
};

struct Replay {
  CheckResult result;
  std::vector<emu::Finding> findings{};  // why it did not pass, if it was the emulator that said so
};

/// Runs the case on one of the schedules that check_emulated runs it on. Judges the outputs, and
/// compares those of later schedules with the first one's, or, of overlapping grids, only looks for
/// findings. Throws fovea::Error when the case or the plan is unknown, or cannot run there.
[[nodiscard]] Replay replay_case(const Card& card, const ReplayOptions& options);

/// What of the command line runs it: "layer_norm --case rows3_width768 --seed 1 --schedule 2".
[[nodiscard]] std::string replay_arguments(const std::string& card, const ReplayOptions& options);

}  // namespace fovea::lab
