// What an evolution of candidates consists of: candidates, what became of them, and who proposes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "lab/evolve/candidate.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::lab {

/// A kernel with values for all of its tuning parameters, and sources that replace the program's.
struct Variant {
  std::string kernel{};
  ParameterValues values{};
  std::map<std::string, std::string> files{};  // text by path
};

/// A variant that someone wants to be tried.
struct Proposal {
  Variant variant{};
  std::vector<int> parents{};  // numbers of candidates; the first is the one that it changes
  std::string reason{};        // why it may be faster
  std::string refused{};       // why nothing can be tried; empty: something can
};

/// What trying it gave.
struct CandidateOutcome {
  std::optional<bool> valid = false;  // nothing: it never ran, so nobody knows
  std::string failed_at;              // the gate, "proposal" or "process"; empty when none failed
  std::string why;                    // in the compiler's words, the judge's, the driver's
  double seconds = 0.0;               // 0: it was not timed
  double spread = 0.0;                // of its samples and the baseline's, as a share of the time
  double baseline_seconds = 0.0;
  double speed_up = 0.0;  // 0: it was not timed

  [[nodiscard]] bool failed() const { return valid == false; }
};

/// `valid` as JSON has it: true, false, or null.
[[nodiscard]] nlohmann::ordered_json validity_json(std::optional<bool> valid);
/// Nothing where it is null; throws what nlohmann::json throws where it is no bool either.
[[nodiscard]] std::optional<bool> validity_from(const nlohmann::ordered_json& json);

/// The outcome in a line of a ledger. Throws as validity_from does.
[[nodiscard]] CandidateOutcome outcome_from(const nlohmann::ordered_json& json);

/// A candidate: proposed and tried.
struct Candidate {
  int number = 0;
  int generation = 0;
  Proposal proposal{};
  CandidateOutcome outcome{};
  bool kept = false;   // it became part of the population
  bool leads = false;  // it became the best of its design, by the same rule
  double cost_seconds = 0.0;
};

/// What a profile's finding means for proposals.
struct Hint {
  std::string rule;
  std::string means;
  std::string attempt;    // what to try
  std::string parameter;  // those that may help, of all designs: "stages, key_slots"; or empty
  double strength = 1.0;
};

enum class PopulationKind : std::uint8_t {
  kBest,     // the best candidate has all children
  kInsight,  // the same, and what its profile says chooses the parameter to change
  kElites,   // the best three, and children of two of them
};
[[nodiscard]] std::string_view to_string(PopulationKind kind);

/// What a proposer knows when it is asked.
struct Situation {
  std::span<const TuningSpace> spaces;  // the baseline's kernel first
  std::span<const Candidate> trials;
  std::vector<int> parents;  // numbers of the population as this generation began, the best first
  std::span<const Hint> findings;      // of the first parent; none unless they are asked for
  const std::set<std::string>* tried;  // what must not be proposed again, as identity_of() names it
  int number = 0;                      // of the candidate that is wanted
  int generation = 0;
};

/// Source of proposals.
class Proposer {
 public:
  Proposer() = default;
  virtual ~Proposer() = default;
  Proposer(const Proposer&) = delete;
  Proposer& operator=(const Proposer&) = delete;

  /// The next proposal; none when it has no more, and `why_none` says why, as a clause.
  [[nodiscard]] virtual std::optional<Proposal> propose(const Situation& situation) = 0;
  [[nodiscard]] virtual std::string why_none() const = 0;
  /// Whether the same situation gives the same proposal, so that a ledger can be checked.
  [[nodiscard]] virtual bool is_repeatable() const = 0;
};

/// Tries candidates.
class Evaluator {
 public:
  Evaluator() = default;
  virtual ~Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// A candidate that fails, however badly, is an outcome. Throws Interrupted when it has to end.
  [[nodiscard]] virtual CandidateOutcome evaluate(const Variant& variant, std::uint64_t seed) = 0;
  /// What a profile of it says; none, and why in `missing`, when there is no profiler.
  [[nodiscard]] virtual std::vector<Hint> findings(const Variant& variant,
                                                   std::string& missing) = 0;
};

/// The space of this kernel. Throws fovea::Error when there is none.
[[nodiscard]] const TuningSpace& space_of(std::span<const TuningSpace> spaces,
                                          std::string_view kernel);
/// Two variants of the same name are the same candidate: the same design, values and sources.
[[nodiscard]] std::string identity_of(const Variant& variant, std::span<const TuningSpace> spaces);
/// "stages 4, columns 192", or the kernel when it is another.
[[nodiscard]] std::string change_between(const Variant& from, const Variant& to);

[[nodiscard]] nlohmann::ordered_json to_json(const Candidate& trial,
                                             std::span<const Candidate> trials);
[[nodiscard]] Candidate trial_from(const nlohmann::ordered_json& json);
[[nodiscard]] nlohmann::ordered_json to_json(const Hint& finding);
/// Anything that is missing stays empty.
[[nodiscard]] Hint hint_from(const nlohmann::ordered_json& json);

}  // namespace fovea::lab
