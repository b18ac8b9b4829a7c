// evolve: tries generations of candidates, keeps those that are faster, and records all of them in
// a ledger from which a later run can resume.
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

/// Minimal relative speed-up of a candidate to be kept. The speed-up must also exceed the spread of
/// the measurements.
inline constexpr double kMinGain = 0.03;
inline constexpr int kChildren = 4;  // children per generation
inline constexpr int kElites = 3;

struct EvolveBudget {
  int trials = 0;        // maximal number of candidates, including the start; 0: unlimited
  double seconds = 0.0;  // 0: unlimited
};

struct EvolveSetup {
  /// The ledger's first line, without the baseline's time. An existing ledger can be resumed only
  /// if its first line agrees in the GPU and in all fields that determine the run.
  nlohmann::ordered_json header;
  std::vector<TuningSpace> spaces;  // the space of the baseline's kernel comes first
  Variant start;                    // candidate 0
  PopulationKind population = PopulationKind::kBest;
  std::uint64_t seed = 0;
  EvolveBudget budget;
  /// Number of generations without a kept candidate after which the run ends; 0: unlimited.
  int patience = 0;
  StopFlag stop;
  std::function<double()> now;  // clock, in seconds since an arbitrary time
  std::function<void(const Candidate&, bool recorded)> on_trial;
  std::function<void(const std::string&)> on_note;
};

struct EvolveReport {
  std::string why;  // why the run ended: "budget", "converged", "exhausted", "interrupted"
  std::string why_in_words;
  std::vector<Candidate> trials;
  int best = 0;  // number of the best candidate; 0 if none is better than the start
  std::optional<CandidateOutcome> confirmed;  // second measurement of the best candidate
  double cost_seconds = 0.0;

  [[nodiscard]] int valid() const;
  [[nodiscard]] int not_judged() const;
  [[nodiscard]] double valid_share() const;
  [[nodiscard]] double median_speed_up() const;  // of the valid candidates; 0 if none was timed
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

/// Returns whether `candidate` is faster than `other` by kMinGain and by more than the spread.
[[nodiscard]] bool is_better(const CandidateOutcome& candidate, const CandidateOutcome& other);

/// Runs the evolution to its end, starting where the ledger ends. Throws fovea::Error if the ledger
/// belongs to another run, if it cannot be written, or if this program would propose other
/// candidates than those in the ledger.
[[nodiscard]] EvolveReport evolve(const EvolveSetup& setup, Evaluator& evaluator,
                                  Proposer& proposer, Ledger& ledger);

}  // namespace fovea::lab
