// profile: profiles a launch with Nsight Compute, and describes what bounds it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stop.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/prepared_case.hpp"
#include "lab/profile/figures.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {

using Shares = std::vector<std::pair<std::string, double>>;

/// Stall samples at a location or of a role, as shares of all samples, by ncu's names of the
/// reasons.
struct Samples {
  std::string where;  // a location such as "sm90_cooperative.cuh:120", or a role; empty without
                      // locations
  std::string role;   // role of the warps at a location; empty without roles
  std::string text;   // the source line, or else the instruction
  double share = 0.0;
  Shares stalls;  // largest first
};

/// Description of the profiled launches.
struct Subject {
  std::string machine;  // a JSON object
  std::string card;
  std::string case_name;
  std::string problem;
  std::string plan;                    // empty: the choice of the launcher or of the level
  std::string level;                   // empty: the choice of the launcher or of the plan
  std::string sources;                 // folder of sources; empty: embedded
  std::map<std::string, int> changes;  // changed tuning parameters
};

/// Hardware counters of a kernel, in base units: seconds, bytes, shares.
struct Profile {
  Subject subject;
  std::string kernel;
  std::string occupancy_reason;  // the limiting resource: "registers"
  std::map<std::string, double, std::less<>> figures;
  std::map<std::string, double> counters;  // counters for the figures, by ncu's names
  Shares stalls;                           // shares of waiting warps by reason, largest first
  std::vector<Samples> instructions;       // samples of each instruction, in program order
  std::vector<Samples> places;
  std::vector<Samples> roles;
  std::string no_places;  // why there are no locations and roles; empty if there are

  /// Returns a figure. Throws fovea::Error if there is no such figure.
  [[nodiscard]] double operator[](std::string_view figure) const;
};

/// Returns a description of a stall reason, given ncu's name: "other warps at a barrier".
[[nodiscard]] std::string_view stall_in_words(std::string_view reason);

/// Returns ncu's names of the hardware counters to collect.
[[nodiscard]] std::vector<std::string> counters_to_ask();

/// Profiles the launches of one case with ncu in a child `program kernel run CARD --case CASE`; if
/// `report` is not empty, keeps ncu's report as `report`.ncu-rep. Throws fovea::Error if there is
/// no GPU, no ncu or no permission to read the counters, and Interrupted if the user interrupts the
/// run.
[[nodiscard]] std::vector<Profile> profile(const CaseSpec& spec, int device_index,
                                           const std::string& program,
                                           const std::string& report = {}, StopFlag stop = {});

/// Returns a message about a failure, with advice for the user, given ncu's output.
[[nodiscard]] std::string why_ncu_failed(const ProcessResult& result);

/// Parses the kernels in ncu's "raw" and "source" pages in CSV format. Throws fovea::Error, which
/// names it, if a counter or a column is missing.
[[nodiscard]] std::vector<Profile> read_profile(std::string_view raw, std::string_view source);

/// Assigns source locations to the samples and groups them by role. `disassembly` is the kernel's
/// listing by nvdisasm -gi, and `sources` are texts by path.
void place(Profile& profile, const std::string& disassembly,
           const std::map<std::string, std::string>& sources);

/// Returns a short description of what bounds the kernel.
[[nodiscard]] std::string verdict(const Profile& profile);
/// Returns lines of text with figures, stalls, locations and the strongest rules that apply.
[[nodiscard]] std::string to_text(const Profile& profile);
/// Returns the profile as JSON, to be read by `compare` and bench/report.
[[nodiscard]] std::string to_json(const Profile& profile);

}  // namespace fovea::lab
