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

/// A kernel with values for all of its tuning parameters, and sources that replace the program's.
struct Variant {
  std::string kernel{};
  ParameterValues values{};
  std::map<std::string, std::string> files{};  // text by path
};

/// A variant that a proposer wants to try.
struct Proposal {
  Variant variant{};
  std::vector<int> parents{};  // numbers of candidates; the variant modifies the first
  std::string reason{};        // why it may be faster
  std::string refused{};       // why there is nothing to try; empty: there is
};

/// The result of trying a candidate.
struct CandidateOutcome {
  std::optional<bool> valid = false;  // nullopt: it never ran, so its validity is unknown
  std::string failed_at;              // name of the failed gate, "proposal" or "process"; empty:
                                      // none failed
  std::string why;                    // a message from the compiler, the check or the driver
  double seconds = 0.0;               // 0: it was not timed
  double spread = 0.0;                // relative spread of its samples and the baseline's
  double baseline_seconds = 0.0;
  double speed_up = 0.0;  // 0: it was not timed

  [[nodiscard]] bool failed() const { return valid == false; }
};

/// Converts `valid` to JSON: true, false, or null.
[[nodiscard]] nlohmann::ordered_json validity_json(std::optional<bool> valid);
/// Converts JSON to an optional bool: null gives nullopt; throws as nlohmann::json does if it is no
/// bool either.
[[nodiscard]] std::optional<bool> validity_from(const nlohmann::ordered_json& json);

/// Parses the outcome in a ledger's line. Throws as validity_from() does.
[[nodiscard]] CandidateOutcome outcome_from(const nlohmann::ordered_json& json);

/// A candidate that was proposed and tried.
struct Candidate {
  int number = 0;
  int generation = 0;
  Proposal proposal{};
  CandidateOutcome outcome{};
  bool kept = false;   // it joined the population
  bool leads = false;  // it became the best candidate of its design, by the same rule
  double cost_seconds = 0.0;
};

/// A finding in a profile, as advice for proposals.
struct Hint {
  std::string rule;
  std::string means;
  std::string attempt;    // what to try
  std::string parameter;  // parameters that may help, in all designs: "stages, key_slots"; or empty
  double strength = 1.0;
};

enum class PopulationKind : std::uint8_t {
  kBest,     // the best candidate is the parent of all children
  kInsight,  // as kBest, and its profile chooses the parameter to change
  kElites,   // the best three are kept; children combine two of them
};
[[nodiscard]] std::string_view to_string(PopulationKind kind);

/// What a proposer knows when it is asked.
struct Situation {
  std::span<const TuningSpace> spaces;  // the baseline's kernel first
  std::span<const Candidate> trials;
  std::vector<int> parents;  // numbers of the candidates in the population when this generation
                             // began, the best first
  std::span<const Hint> findings;      // findings in the first parent's profile; empty unless
                                       // requested
  const std::set<std::string>* tried;  // identities, by identity_of(), that must not be proposed
                                       // again
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

  /// Returns the next proposal; none if there are no more; then `why_none` has a clause that says
  /// why.
  [[nodiscard]] virtual std::optional<Proposal> propose(const Situation& situation) = 0;
  [[nodiscard]] virtual std::string why_none() const = 0;
  /// Returns whether the same situation always gives the same proposal, so that a ledger can be
  /// verified.
  [[nodiscard]] virtual bool is_repeatable() const = 0;
};

/// Tries candidates.
class Evaluator {
 public:
  Evaluator() = default;
  virtual ~Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Tries a variant; any failure of the variant is an outcome. Throws Interrupted when the user
  /// interrupts.
  [[nodiscard]] virtual CandidateOutcome evaluate(const Variant& variant, std::uint64_t seed) = 0;
  /// Returns the findings in a profile of the variant; if no profiler is available, none, and
  /// `missing` says why.
  [[nodiscard]] virtual std::vector<Hint> findings(const Variant& variant,
                                                   std::string& missing) = 0;
};

/// Returns the tuning space of this kernel. Throws fovea::Error if there is none.
[[nodiscard]] const TuningSpace& space_of(std::span<const TuningSpace> spaces,
                                          std::string_view kernel);
/// Returns a key for a variant: variants with the same design, values and sources have the same
/// key.
[[nodiscard]] std::string identity_of(const Variant& variant, std::span<const TuningSpace> spaces);
/// Describes how two variants differ: "stages 4, columns 192", or the kernel's name if that
/// changed.
[[nodiscard]] std::string change_between(const Variant& from, const Variant& to);

[[nodiscard]] nlohmann::ordered_json to_json(const Candidate& trial,
                                             std::span<const Candidate> trials);
[[nodiscard]] Candidate trial_from(const nlohmann::ordered_json& json);
[[nodiscard]] nlohmann::ordered_json to_json(const Hint& finding);
/// Parses a hint; missing fields stay empty.
[[nodiscard]] Hint hint_from(const nlohmann::ordered_json& json);

}  // namespace fovea::lab
