// profile: one launch under Nsight Compute, and a description of what bounds it.
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

/// Stall samples at one location: shares of all samples, by ncu's names for the reasons.
struct Samples {
  std::string where;  // a location such as "sm90_cooperative.cuh:120", or a role; empty without
                      // locations
  std::string role;   // role of the warps at a location; empty without roles
  std::string text;   // the instruction, or the source line
  double share = 0.0;
  Shares stalls;  // largest first
};

/// Description of what was launched.
struct Subject {
  std::string machine;  // a JSON object
  std::string card;
  std::string case_name;
  std::string problem;
  std::string plan;                    // empty: the launcher's choice, or the level's
  std::string level;                   // empty: the launcher's choice, or the plan's
  std::string sources;                 // folder of sources; empty: the program's own
  std::map<std::string, int> changes;  // changed tuning parameters
};

/// Hardware counters of one kernel, in base units: seconds, bytes, shares.
struct Profile {
  Subject subject;
  std::string kernel;
  std::string occupancy_reason;  // the limiting resource: "registers"
  std::map<std::string, double, std::less<>> figures;
  std::map<std::string, double> counters;  // counters that the figures are computed from, by ncu's
                                           // names
  Shares stalls;                           // shares of waiting warps, largest first
  std::vector<Samples> instructions;       // in program order, before they are grouped by location
  std::vector<Samples> places;
  std::vector<Samples> roles;
  std::string no_places;  // why there are no locations and roles; else empty

  /// Throws fovea::Error if there is no such figure: unknown is not zero.
  [[nodiscard]] double operator[](std::string_view figure) const;
};

/// Returns a description of a stall reason, given ncu's name: "other warps at a barrier".
[[nodiscard]] std::string_view stall_in_words(std::string_view reason);

/// Returns ncu's names of the counters to collect.
[[nodiscard]] std::vector<std::string> counters_to_ask();

/// Profiles the launches of one case with ncu in a child `program kernel run CARD --case CASE`; if
/// `report` is not empty, keeps ncu's report as `report`.ncu-rep. Throws fovea::Error that says
/// what is missing: the GPU, ncu, or the permission to read the counters; Interrupted when the user
/// interrupts.
[[nodiscard]] std::vector<Profile> profile(const CaseSpec& spec, int device_index,
                                           const std::string& program,
                                           const std::string& report = {}, StopFlag stop = {});

/// Returns what the user can do about a failure, given ncu's output.
[[nodiscard]] std::string why_ncu_failed(const ProcessResult& result);

/// Parses the kernels in ncu's "raw" and "source" pages in CSV format. Throws fovea::Error that
/// names a counter or a column that is missing.
[[nodiscard]] std::vector<Profile> read_profile(std::string_view raw, std::string_view source);

/// Assigns source locations to the samples and groups them by role, given nvdisasm -gi's listing of
/// the kernel; `sources` are texts by path.
void place(Profile& profile, const std::string& disassembly,
           const std::map<std::string, std::string>& sources);

/// Returns what bounds the kernel, in a sentence or two.
[[nodiscard]] std::string verdict(const Profile& profile);
/// Returns figures, stalls, locations and the strongest rules that fire, as lines of text.
[[nodiscard]] std::string to_text(const Profile& profile);
/// Returns the whole profile as JSON, as `compare` and `report` read it.
[[nodiscard]] std::string to_json(const Profile& profile);

}  // namespace fovea::lab
