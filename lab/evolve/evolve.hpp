// evolve: generations of candidates, each kept or not by what it measures, in a ledger that another
// run can go on from.
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

/// A candidate is kept when it is faster by this share, beyond the spread of the measurements.
inline constexpr double kMinGain = 0.03;
inline constexpr int kChildren = 4;  // of a generation
inline constexpr int kElites = 3;

struct EvolveBudget {
  int trials = 0;        // candidates, the start included; 0: any number
  double seconds = 0.0;  // 0: any time
};

struct EvolveSetup {
  /// The ledger's first line, but for the baseline's seconds. A ledger of another run, by any of
  /// these but the machine's date and the budget, is not gone on with.
  nlohmann::ordered_json header;
  std::vector<TuningSpace> spaces;  // the baseline's kernel first
  Variant start;                    // candidate 0
  PopulationKind population = PopulationKind::kBest;
  std::uint64_t seed = 0;
  EvolveBudget budget;
  int patience = 0;  // generations without a kept candidate, then it has converged; 0: any number
  StopFlag stop;
  std::function<double()> now;  // seconds since whenever
  std::function<void(const Candidate&, bool recorded)> on_trial;
  std::function<void(const std::string&)> on_note;
};

struct EvolveReport {
  std::string why;  // it ended: "budget", "converged", "exhausted", "interrupted"
  std::string why_in_words;
  std::vector<Candidate> trials;
  int best = 0;  // number of a candidate; 0: none is better than the start
  std::optional<CandidateOutcome> confirmed;  // the best, measured once more
  double cost_seconds = 0.0;

  [[nodiscard]] int valid() const;
  [[nodiscard]] int not_judged() const;
  [[nodiscard]] double valid_share() const;
  [[nodiscard]] double median_speed_up() const;  // of the valid ones; 0: none was timed
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

/// Whether `candidate` is faster than `other` by what pays.
[[nodiscard]] bool is_better(const CandidateOutcome& candidate, const CandidateOutcome& other);

/// Runs to the end, or goes on where the ledger ends. Throws fovea::Error when the ledger is of
/// another run, cannot be written, or when this program proposes other candidates than it holds.
[[nodiscard]] EvolveReport evolve(const EvolveSetup& setup, Evaluator& evaluator,
                                  Proposer& proposer, Ledger& ledger);

}  // namespace fovea::lab
