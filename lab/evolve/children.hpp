// Isolates two parts of an evolution in child processes: trying candidates, which may crash or
// hang, and the proposer, a program of the user.
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

/// Tries each candidate in a child process, `program kernel try`, so that a crash or a hang affects
/// only that child. Only one child uses the GPU at a time.
class ChildEvaluator : public Evaluator {
 public:
  struct Setup {
    std::string program;                // path of this program
    std::vector<std::string> question;  // arguments for the card, its case, its level and the GPU
    const KernelSources* sources = nullptr;
    std::vector<TuningSpace> spaces;  // the space of the baseline's kernel comes first
    std::string folder;               // folder with the kernels' sources; empty: embedded
    double max_seconds = 120;         // time limit of a child
    StopFlag stop;
  };
  explicit ChildEvaluator(Setup setup) : setup_(std::move(setup)) {}

  [[nodiscard]] CandidateOutcome evaluate(const Variant& variant, std::uint64_t seed) override;
  [[nodiscard]] std::vector<Hint> findings(const Variant& variant, std::string& missing) override;

 private:
  Setup setup_;
};

/// Gets proposals from a program. Each request is a line of JSON with the task or the result of the
/// last proposal, and each answer is a proposal in a line of JSON. An invalid answer counts as a
/// refused proposal. If the program ends or hangs, it is restarted, at most kMaxStarts times in
/// total.
class ProgramProposer : public Proposer {
 public:
  struct Setup {
    std::vector<std::string> command;
    nlohmann::ordered_json task;  // constant part of the first request
    const KernelSources* sources = nullptr;
    double max_seconds = 120;  // time limit per answer
    StopFlag stop;
  };
  static constexpr int kMaxStarts = 5;

  explicit ProgramProposer(Setup setup) : setup_(std::move(setup)) {}

  [[nodiscard]] std::optional<Proposal> propose(const Situation& situation) override;
  [[nodiscard]] std::string why_none() const override { return why_none_; }
  [[nodiscard]] bool is_repeatable() const override { return false; }

 private:
  /// Ends the program and returns a refused proposal with this reason.
  Proposal refused_proposal(std::string why);

  Setup setup_;
  std::optional<Child> child_;
  int starts_ = 0;
  std::string why_none_;
};

/// Parses a proposer's answer. Returns a refused proposal if the answer is invalid.
[[nodiscard]] Proposal proposal_from(const std::string& answer, const Situation& situation,
                                     const KernelSources& sources);

/// Parses the outcome that a child printed. Returns std::nullopt if the output is not an outcome.
[[nodiscard]] std::optional<CandidateOutcome> outcome_from_try(const std::string& output);

}  // namespace fovea::lab
