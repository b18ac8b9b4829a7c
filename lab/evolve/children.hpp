// The dangerous work of an evolution: children that try candidates and may crash or never end, and
// the proposer, a program of the user's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/stop.hpp"
#include "lab/evolve/evolution.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {

/// Tries each candidate in a child `program kernel try`, alone on the GPU: what crashes or never
/// ends costs that child.
class ChildEvaluator : public Evaluator {
 public:
  struct Setup {
    std::string program;                // this one
    std::vector<std::string> question;  // the card, and options of its case, level and GPU
    const KernelSources* sources = nullptr;
    std::vector<TuningSpace> spaces;  // the baseline's kernel first
    std::string folder;               // that they are from; empty: the program's own
    double most_seconds = 120;        // that a child may take
    StopFlag stop;
  };
  explicit ChildEvaluator(Setup setup) : setup_(std::move(setup)) {}

  [[nodiscard]] CandidateOutcome evaluate(const Variant& variant, std::uint64_t seed) override;
  [[nodiscard]] std::vector<Hint> findings(const Variant& variant, std::string& missing) override;

 private:
  Setup setup_;
};

/// A program that is told, in a line of JSON, what is to be done or what became of its last
/// proposal, and answers each with a proposal in a line of JSON. Whatever else it does is a refused
/// proposal; when it has ended or hung, it is started again, a few times.
class ProgramProposer : public Proposer {
 public:
  struct Setup {
    std::vector<std::string> command;
    nlohmann::ordered_json task;  // what does not change
    const KernelSources* sources = nullptr;
    double most_seconds = 120;  // for an answer
    StopFlag stop;
  };
  static constexpr int kMaxStarts = 5;

  explicit ProgramProposer(Setup setup) : setup_(std::move(setup)) {}

  [[nodiscard]] std::optional<Proposal> propose(const Situation& situation) override;
  [[nodiscard]] std::string why_none() const override { return why_none_; }
  [[nodiscard]] bool is_repeatable() const override { return false; }

 private:
  /// Ends it.
  Proposal given_up(std::string why);

  Setup setup_;
  std::optional<Child> child_;
  int starts_ = 0;
  std::string why_none_;
};

/// The proposal in a proposer's answer; a refused one when there is none.
[[nodiscard]] Proposal proposal_from(const std::string& answer, const Situation& situation,
                                     const KernelSources& sources);

/// The outcome in what a child printed; none when that is nothing of the kind.
[[nodiscard]] std::optional<CandidateOutcome> outcome_from_try(const std::string& output);

}  // namespace fovea::lab
