// The elements of an evolution: candidates, their outcomes, and the interfaces for proposing and
// evaluating.
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

/// A kernel with values for all of its tuning parameters, and with sources that replace those
/// embedded in the program.
struct Variant {
  std::string kernel{};
  ParameterValues values{};
  std::map<std::string, std::string> files{};  // texts by path
};

/// A variant that a proposer wants to try.
struct Proposal {
  Variant variant{};
  std::vector<int> parents{};  // numbers of candidates, the first of which is modified
  std::string reason{};        // why it may be faster
  std::string refused{};       // why the proposal is invalid; empty if it is valid
};

/// The result of trying a candidate.
struct CandidateOutcome {
  std::optional<bool> valid = false;  // nullopt: unknown, since it never ran
  std::string failed_at;  // name of the failed gate, "proposal" or "process"; empty if none failed
  std::string why;        // a message from the compiler, the check or the driver
  double seconds = 0.0;   // 0 if it was not timed
  double spread = 0.0;    // relative spread of the samples, including the baseline's
  double baseline_seconds = 0.0;
  double speed_up = 0.0;  // 0 if it was not timed

  [[nodiscard]] bool failed() const { return valid == false; }
};

/// Converts `valid` to JSON: true, false, or null.
[[nodiscard]] nlohmann::ordered_json validity_json(std::optional<bool> valid);
/// Converts JSON to an optional bool, nullopt for null. Throws an exception of nlohmann::json if it
/// is neither null nor a bool.
[[nodiscard]] std::optional<bool> validity_from(const nlohmann::ordered_json& json);

/// Parses the outcome in a ledger's line. Throws as validity_from() does.
[[nodiscard]] CandidateOutcome outcome_from(const nlohmann::ordered_json& json);

/// A candidate that was proposed and tried.
struct Candidate {
  int number = 0;
  int generation = 0;
  Proposal proposal{};
  CandidateOutcome outcome{};
  bool kept = false;  // whether it joined the population
  /// Whether it became the best candidate of its design, by the rule for the population.
  bool leads = false;
  double cost_seconds = 0.0;
};

/// A finding in a profile, as advice for proposals.
struct Hint {
  std::string rule;
  std::string means;
  std::string attempt;    // what to try
  std::string parameter;  // parameters of any design that may help, such as "stages, key_slots";
                          // may be empty
  double strength = 1.0;
};

enum class PopulationKind : std::uint8_t {
  kBest,     // the best candidate is the parent of all children
  kInsight,  // as kBest, but its profile suggests the parameter to change
  kElites,   // the best three candidates are kept, and children combine two of them
};
[[nodiscard]] std::string_view to_string(PopulationKind kind);

/// The information that a proposer gets with a request.
struct Situation {
  std::span<const TuningSpace> spaces;  // the space of the baseline's kernel comes first
  std::span<const Candidate> trials;
  std::vector<int> parents;  // numbers of the candidates in the population at the start of this
                             // generation, best first
  std::span<const Hint> findings;      // findings in the first parent's profile, if it was profiled
  const std::set<std::string>* tried;  // results of variant_key() for the variants tried so far
  int number = 0;                      // number of the next candidate
  int generation = 0;
};

/// Source of proposals.
class Proposer {
 public:
  Proposer() = default;
  virtual ~Proposer() = default;
  Proposer(const Proposer&) = delete;
  Proposer& operator=(const Proposer&) = delete;

  /// Returns the next proposal, or std::nullopt if there are no more; then why_none() returns a
  /// clause that says why.
  [[nodiscard]] virtual std::optional<Proposal> propose(const Situation& situation) = 0;
  [[nodiscard]] virtual std::string why_none() const = 0;
  /// Returns whether proposals depend only on the situation, so that the proposals in a ledger can
  /// be verified.
  [[nodiscard]] virtual bool is_repeatable() const = 0;
};

/// Tries candidates.
class Evaluator {
 public:
  Evaluator() = default;
  virtual ~Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Tries a variant. A failure of the variant is an outcome, not an exception. Throws Interrupted
  /// if the user interrupts the run.
  [[nodiscard]] virtual CandidateOutcome evaluate(const Variant& variant, std::uint64_t seed) = 0;
  /// Returns the findings in a profile of the variant. If there is no profile, returns an empty
  /// vector and sets `missing` to the reason.
  [[nodiscard]] virtual std::vector<Hint> findings(const Variant& variant,
                                                   std::string& missing) = 0;
};

/// Returns the tuning space of this kernel. Throws fovea::Error if there is none.
[[nodiscard]] const TuningSpace& find_space(std::span<const TuningSpace> spaces,
                                            std::string_view kernel);
/// Returns a key for a variant: variants with the same design, values and sources have the same
/// key.
[[nodiscard]] std::string variant_key(const Variant& variant, std::span<const TuningSpace> spaces);
/// Describes the difference between two variants: "stages 4, columns 192", or the new kernel's name
/// if the kernel differs.
[[nodiscard]] std::string change_between(const Variant& from, const Variant& to);

[[nodiscard]] nlohmann::ordered_json to_json(const Candidate& trial,
                                             std::span<const Candidate> trials);
[[nodiscard]] Candidate trial_from(const nlohmann::ordered_json& json);
[[nodiscard]] nlohmann::ordered_json to_json(const Hint& finding);
/// Parses a hint; missing fields remain empty.
[[nodiscard]] Hint hint_from(const nlohmann::ordered_json& json);

}  // namespace fovea::lab
