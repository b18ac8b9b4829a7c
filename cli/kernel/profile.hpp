// Options of `fovea kernel profile`, and the part that measures gates.
#pragma once

#include <string>
#include <vector>

#include "cli/kernel/options.hpp"
#include "lab/check/prepared_case.hpp"
#include "lab/profile/profile.hpp"

namespace fovea::cli::kernel {

struct ProfileOptions : CardOptions {
  int gpu = 0;
  lab::CaseSpec launch;
  std::string output;  // file name without extension; with `gate`, a folder
  bool gate = false;
  std::string record;  // file for the gate record; empty: none
};

/// Runs `profile --gate`: compares kernels under the profiler with the limits of their cards.
int profile_gates(const ProfileOptions& options);

/// Writes STEM.json, or STEM-1.json, STEM-2.json, ... for several launches; nothing if the stem is
/// empty.
void write_profiles(const std::vector<lab::Profile>& profiles, const std::string& stem);

}  // namespace fovea::cli::kernel
