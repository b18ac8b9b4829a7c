// profile: one launch under Nsight Compute, and in words what bounds it.
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

/// Where warps were found waiting, and for what: shares of all samples, by ncu's names of reasons.
struct Samples {
  std::string where;  // a place, "sm90_cooperative.cuh:120", or a role; empty without places
  std::string role;   // of a place: the warps' part in the kernel; empty without roles
  std::string text;   // the instruction, or the line of the source
  double share = 0.0;
  Shares stalls;  // the largest first
};

/// What was launched, in words.
struct Subject {
  std::string machine;  // a JSON object
  std::string card;
  std::string case_name;
  std::string problem;
  std::string plan;                    // empty: the launcher's choice, or the level's
  std::string level;                   // empty: the launcher's choice, or the plan's
  std::string sources;                 // a folder; empty: the program's own
  std::map<std::string, int> changes;  // of tuning parameters
};

/// One kernel as the hardware's counters saw it, in units of one: seconds, bytes, shares.
struct Profile {
  Subject subject;
  std::string kernel;
  std::string occupancy_reason;  // what sets the limit: "registers"
  std::map<std::string, double, std::less<>> figures;
  std::map<std::string, double> counters;  // those that the figures were made of, by ncu's names
  Shares stalls;                           // of waiting warps, the largest first
  std::vector<Samples> instructions;       // in order, before they are gathered by place
  std::vector<Samples> places;
  std::vector<Samples> roles;
  std::string no_places;  // why there are no places and no roles; else empty

  /// Throws fovea::Error when there is no such figure: unknown is not zero.
  [[nodiscard]] double operator[](std::string_view figure) const;
};

/// ncu's name of a reason, in words: "other warps at a barrier".
[[nodiscard]] std::string_view stall_in_words(std::string_view reason);

/// The counters of the figures, by ncu's names, that have to be asked for.
[[nodiscard]] std::vector<std::string> counters_to_ask();

/// Runs ncu on exactly the launches of one case: a child `program kernel run CARD --case CASE`, and
/// keeps ncu's report in `report`.ncu-rep, when it is not empty.
/// Throws fovea::Error that says what is missing: the GPU, ncu, or the permission to read the
/// counters; Interrupted when it is to stop.
[[nodiscard]] std::vector<Profile> profile(const CaseSpec& spec, int device_index,
                                           const std::string& program,
                                           const std::string& report = {}, StopFlag stop = {});

/// What ncu said when it failed, turned into what to do about it.
[[nodiscard]] std::string why_ncu_failed(const ProcessResult& result);

/// The kernels in ncu's "raw" and "source" pages, as comma-separated values. Throws fovea::Error
/// that names a counter or a column that should be there and is not.
[[nodiscard]] std::vector<Profile> read_profile(std::string_view raw, std::string_view source);

/// Gives the samples their places, and gathers them by role, from what nvdisasm -gi printed of
/// the kernel; `sources` are texts by path.
void place(Profile& profile, const std::string& disassembly,
           const std::map<std::string, std::string>& sources);

/// What bounds the kernel, in a sentence or two.
[[nodiscard]] std::string verdict(const Profile& profile);
/// Figures, stalls, places and the strongest rules that fire, as lines of text.
[[nodiscard]] std::string to_text(const Profile& profile);
/// All of it, as `compare` and `report` read it.
[[nodiscard]] std::string to_json(const Profile& profile);

}  // namespace fovea::lab
