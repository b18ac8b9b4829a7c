// `fovea kernel profile`: its options, and the part of it that measures gates.
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
  std::string output;  // file name without extension; with `gate`, the folder
  bool gate = false;
  std::string record;  // file for the gate record; empty: none
};

/// Runs `profile --gate`: compares kernels under the profiler with the limits of their cards.
int profile_gates(const ProfileOptions& options);

/// STEM.json, or STEM-1.json, STEM-2.json, ... of several launches; nothing without a stem.
void write_profiles(const std::vector<lab::Profile>& profiles, const std::string& stem);

}  // namespace fovea::cli::kernel
