// evolve: generations of candidates, each kept or dropped by its measured time and recorded in a
// ledger from which a later run can resume.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/stop.hpp"
#include "lab/evolve/evolution.hpp"
#include "lab/system/ledger.hpp"

namespace fovea::lab {

/// Minimal relative speed-up for which a candidate is kept; it must also exceed the spread of the
/// measurements.
inline constexpr double kMinGain = 0.03;
inline constexpr int kChildren = 4;  // per generation
inline constexpr int kElites = 3;

struct EvolveBudget {
  int trials = 0;        // candidates, the start included; 0: any number
  double seconds = 0.0;  // 0: any time
};

struct EvolveSetup {
  /// The ledger's first line, without the baseline's time. A ledger cannot be resumed if it differs
  /// in anything but the machine's date and the budget.
  nlohmann::ordered_json header;
  std::vector<TuningSpace> spaces;  // the baseline's kernel first
  Variant start;                    // candidate 0
  PopulationKind population = PopulationKind::kBest;
  std::uint64_t seed = 0;
  EvolveBudget budget;
  int patience = 0;  // generations without a kept candidate after which it has converged; 0: any
                     // number
  StopFlag stop;
  std::function<double()> now;  // a clock, in seconds since an arbitrary time
  std::function<void(const Candidate&, bool recorded)> on_trial;
  std::function<void(const std::string&)> on_note;
};

struct EvolveReport {
  std::string why;  // why it ended: "budget", "converged", "exhausted", "interrupted"
  std::string why_in_words;
  std::vector<Candidate> trials;
  int best = 0;  // number of the best candidate; 0: none is better than the start
  std::optional<CandidateOutcome> confirmed;  // second measurement of the best candidate
  double cost_seconds = 0.0;

  [[nodiscard]] int valid() const;
  [[nodiscard]] int not_judged() const;
  [[nodiscard]] double valid_share() const;
  [[nodiscard]] double median_speed_up() const;  // over the valid candidates; 0: none was timed
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

/// Returns whether `candidate` is faster than `other` by kMinGain and by more than the spread.
[[nodiscard]] bool is_better(const CandidateOutcome& candidate, const CandidateOutcome& other);

/// Runs to the end, resuming where the ledger ends. Throws fovea::Error if the ledger belongs to
/// another run, if it cannot be written, or if this program proposes other candidates than those in
/// the ledger.
[[nodiscard]] EvolveReport evolve(const EvolveSetup& setup, Evaluator& evaluator,
                                  Proposer& proposer, Ledger& ledger);

}  // namespace fovea::lab
