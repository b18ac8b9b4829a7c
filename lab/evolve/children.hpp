// Isolates the risky parts of an evolution in child processes: trying candidates, which may crash
// or hang, and the proposer, a program that the user provides.
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

/// Tries each candidate in a child process, `program kernel try`, that has the GPU to itself: a
/// crash or a hang affects only that child.
class ChildEvaluator : public Evaluator {
 public:
  struct Setup {
    std::string program;                // path of this program
    std::vector<std::string> question;  // the card, and options for its case, level and GPU
    const KernelSources* sources = nullptr;
    std::vector<TuningSpace> spaces;  // the baseline's kernel first
    std::string folder;               // folder with the kernels' sources; empty: the program's own
    double max_seconds = 120;         // time limit of a child
    StopFlag stop;
  };
  explicit ChildEvaluator(Setup setup) : setup_(std::move(setup)) {}

  [[nodiscard]] CandidateOutcome evaluate(const Variant& variant, std::uint64_t seed) override;
  [[nodiscard]] std::vector<Hint> findings(const Variant& variant, std::string& missing) override;

 private:
  Setup setup_;
};

/// Gets proposals from a program: it is sent one line of JSON, with the task or the result of its
/// last proposal, and answers with a proposal in one line of JSON. An invalid answer counts as a
/// refused proposal; if the program ends or hangs, it is restarted up to a limit.
class ProgramProposer : public Proposer {
 public:
  struct Setup {
    std::vector<std::string> command;
    nlohmann::ordered_json task;  // the part of the requests that stays the same
    const KernelSources* sources = nullptr;
    double max_seconds = 120;  // time limit of an answer
    StopFlag stop;
  };
  static constexpr int kMaxStarts = 5;

  explicit ProgramProposer(Setup setup) : setup_(std::move(setup)) {}

  [[nodiscard]] std::optional<Proposal> propose(const Situation& situation) override;
  [[nodiscard]] std::string why_none() const override { return why_none_; }
  [[nodiscard]] bool is_repeatable() const override { return false; }

 private:
  /// Ends the program; the proposal says why.
  Proposal given_up(std::string why);

  Setup setup_;
  std::optional<Child> child_;
  int starts_ = 0;
  std::string why_none_;
};

/// Parses a proposer's answer; an invalid answer gives a refused proposal.
[[nodiscard]] Proposal proposal_from(const std::string& answer, const Situation& situation,
                                     const KernelSources& sources);

/// Parses the outcome that a child printed; none if it printed something else.
[[nodiscard]] std::optional<CandidateOutcome> outcome_from_try(const std::string& output);

}  // namespace fovea::lab
