// Runs the generations of an evolution. The ledger contains everything that determines the next
// proposal, so that a resumed run continues with the recorded outcomes as if it had measured them.
#include "lab/evolve/evolve.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "lab/measure/timer.hpp"
#include "lab/system/largest_first.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxConfirmations = 3;  // maximal number of candidates to measure again

/// The candidates that may become parents, best first.
class Population {
 public:
  Population(PopulationKind kind, const std::vector<Candidate>& trials)
      : size_(kind == PopulationKind::kElites ? kElites : 1), trials_(trials) {}

  /// Adds a candidate if it qualifies, and returns whether it did.
  [[nodiscard]] bool take(const Candidate& trial) {
    if (trial.outcome.failed()) {
      return false;
    }
    const bool timed = trial.outcome.speed_up > 0;
    if (members_.size() == size_ || (!timed && !members_.empty())) {
      if (!is_better(trial.outcome, member_outcome(members_.back()))) {
        return false;
      }
      members_.pop_back();
    }
    const auto place = std::ranges::find_if(members_, [&](int member) {
      return member_outcome(member).speed_up < trial.outcome.speed_up;
    });
    members_.insert(place, trial.number);
    return true;
  }
  [[nodiscard]] const std::vector<int>& members() const { return members_; }

 private:
  [[nodiscard]] const CandidateOutcome& member_outcome(int number) const {
    return trials_[static_cast<std::size_t>(number)].outcome;
  }

  std::size_t size_;
  const std::vector<Candidate>& trials_;
  std::vector<int> members_;
};

/// The contents of an earlier run's ledger.
struct LedgerContents {
  std::optional<Json> header;
  std::vector<Candidate> trials;
  std::map<int, std::vector<Hint>> findings;
  std::map<int, Json> confirmations;
  std::optional<Json> end;  // line that ends the run, if it is the last one
  double other_seconds = 0.0;
};

LedgerContents read_ledger_contents(const Ledger& ledger) {
  LedgerContents recorded;
  try {
    for (const Json& line : ledger.lines()) {
      const std::string kind = line.at("kind").get<std::string>();
      recorded.end = kind == "end" ? std::optional(line) : std::nullopt;
      if (kind == "run") {
        recorded.header = line;
      } else if (kind == "candidate") {
        const Candidate& trial = recorded.trials.emplace_back(trial_from(line));
        if (trial.number != static_cast<int>(recorded.trials.size()) - 1) {
          fail("candidate {} is missing", recorded.trials.size() - 1);
        }
        for (const int parent : trial.proposal.parents) {
          if (parent < 0 || parent >= trial.number) {
            fail("candidate {} cannot be derived from {}", trial.number, parent);
          }
        }
      } else if (kind == "findings") {
        auto& findings = recorded.findings[line.at("of").get<int>()];
        findings.clear();
        for (const Json& finding : line.at("findings")) {
          findings.push_back(hint_from(finding));
        }
        recorded.other_seconds += line.at("cost_seconds").get<double>();
      } else if (kind == "confirmation") {
        recorded.confirmations[line.at("number").get<int>()] = line;
        recorded.other_seconds += line.at("cost_seconds").get<double>();
      }
    }
  } catch (const std::exception& error) {
    fail("cannot read the ledger: {}", error.what());
  }
  if (!recorded.header.has_value() && !ledger.lines().empty()) {
    fail("cannot read the ledger: its first line does not describe a run");
  }
  return recorded;
}

std::string gpu_name(const Json& header) {
  const Json gpu = header.value("machine", Json::object()).value("gpu", Json(nullptr));
  return gpu.is_object() ? gpu.value("name", "") : "no GPU";
}

void require_same_run(const Json& recorded, const Json& header) {
  if (gpu_name(recorded) != gpu_name(header)) {
    fail(
        "the ledger was written on another machine, with {} instead of {}; choose another "
        "file",
        gpu_name(recorded), gpu_name(header));
  }
  const auto value_of = [](const Json& json, const char* key) {
    Json value = json.value(key, Json(nullptr));
    if (value.is_object()) {
      value.erase("seconds");  // the baseline's time, which varies
    }
    return value;
  };
  for (const char* const key : {"version", "card", "case", "problem", "level", "sources",
                                "population", "seed", "proposer", "start", "baseline"}) {
    const Json before = value_of(recorded, key);
    const Json now = value_of(header, key);
    if (before != now) {
      fail(
          "the ledger belongs to another run, whose {} is {} instead of {}; choose another "
          "file",
          key, before.dump(), now.dump());
    }
  }
}

Json outcome_json(int number, const CandidateOutcome& outcome, double cost) {
  return {{"kind", "confirmation"},
          {"number", number},
          {"valid", validity_json(outcome.valid)},
          {"failed_at", outcome.failed_at},
          {"why", outcome.why},
          {"seconds", outcome.seconds},
          {"spread", outcome.spread},
          {"baseline_seconds", outcome.baseline_seconds},
          {"speed_up", outcome.speed_up},
          {"cost_seconds", cost}};
}

class Evolution {
 public:
  Evolution(const EvolveSetup& setup, Evaluator& evaluator, Proposer& proposer, Ledger& ledger)
      : setup_(setup),
        evaluator_(evaluator),
        proposer_(proposer),
        ledger_(ledger),
        recorded_(read_ledger_contents(ledger)),
        population_(setup.population, trials_) {
    if (recorded_.header.has_value()) {
      require_same_run(*recorded_.header, setup.header);
    }
    spent_ = recorded_.other_seconds;
  }

  EvolveReport run() {
    try {
      while (should_continue() && run_trial()) {
      }
      confirm();
    } catch (const Interrupted&) {
      end("interrupted", "it was interrupted; --resume continues it");
    }
    report_.trials = trials_;
    report_.cost_seconds = spent_;
    const Json line = report_.to_json();
    if (wrote_ || !recorded_.end.has_value() || recorded_.end->at("why") != line.at("why")) {
      ledger_.append(line);
    }
    return std::move(report_);
  }

 private:
  void end(const char* why, std::string words) {
    report_.why = why;
    report_.why_in_words = std::move(words);
  }

  [[nodiscard]] int number() const { return static_cast<int>(trials_.size()); }
  [[nodiscard]] int generation() const {
    return number() == 0 ? 0 : 1 + (number() - 1) / kChildren;
  }
  [[nodiscard]] const Candidate* recorded_trial() const {
    const auto index = trials_.size();
    return index < recorded_.trials.size() ? &recorded_.trials[index] : nullptr;
  }

  [[nodiscard]] bool should_continue() {
    setup_.stop.poll();
    if (recorded_trial() != nullptr) {
      return true;  // replays an earlier run
    }
    if (setup_.budget.trials > 0 && number() >= setup_.budget.trials) {
      end("budget", fmt::format("the budget of {} candidates is spent", setup_.budget.trials));
      return false;
    }
    if (setup_.budget.seconds > 0 && spent_ >= setup_.budget.seconds) {
      end("budget", fmt::format("the budget of {:g} s is spent", setup_.budget.seconds));
      return false;
    }
    if (setup_.patience > 0 && generation() - last_kept_ > setup_.patience) {
      end("converged", fmt::format("no candidate was kept for {} generations", setup_.patience));
      return false;
    }
    return true;
  }

  /// Proposes and tries a candidate. Returns false if there are no more proposals.
  [[nodiscard]] bool run_trial() {
    if ((number() - 1) % kChildren == 0 || number() == 0) {
      parents_ = population_.members();
      profile_parent();
    }
    const Candidate* const before = recorded_trial();
    const double began = setup_.now();
    std::optional<Proposal> proposal = before != nullptr && !proposer_.is_repeatable()
                                           ? std::optional(before->proposal)
                                           : propose();
    if (!proposal.has_value()) {
      end("exhausted", proposer_.why_none());
      return false;
    }
    Candidate trial{
        .number = number(), .generation = generation(), .proposal = std::move(*proposal)};
    if (before != nullptr) {
      require_same(*before, trial.proposal);
      trial.outcome = before->outcome;
      trial.cost_seconds = before->cost_seconds;
    } else {
      trial.outcome = try_proposal(trial.proposal);
      trial.cost_seconds = setup_.now() - began;
    }
    if (trial.proposal.refused.empty()) {
      tried_.insert(variant_key(trial.proposal.variant, setup_.spaces));
    }
    record(std::move(trial), before != nullptr);
    return true;
  }

  std::optional<Proposal> propose() {
    if (number() == 0) {
      return Proposal{.variant = setup_.start, .reason = "the start"};
    }
    const Situation situation{.spaces = setup_.spaces,
                              .trials = trials_,
                              .parents = parents_,
                              .findings = findings_,
                              .tried = &tried_,
                              .number = number(),
                              .generation = generation()};
    std::optional<Proposal> proposal = proposer_.propose(situation);
    if (proposal.has_value() && proposal->refused.empty() &&
        tried_.contains(variant_key(proposal->variant, setup_.spaces))) {
      proposal->refused = "the same candidate was already tried";
    }
    return proposal;
  }

  CandidateOutcome try_proposal(const Proposal& proposal) {
    if (!proposal.refused.empty()) {
      return {.valid = false, .failed_at = "proposal", .why = proposal.refused};
    }
    CandidateOutcome outcome = evaluator_.evaluate(proposal.variant, setup_.seed);
    if (number() == 0 && outcome.failed_at == "process") {
      fail("the first candidate cannot be tried: {}", outcome.why);
    }
    return outcome;
  }

  void require_same(const Candidate& before, const Proposal& now) const {
    if (before.proposal.variant.kernel != now.variant.kernel ||
        before.proposal.variant.values != now.variant.values) {
      fail(
          "cannot resume the run: candidate {} of the ledger is {} {}, but this program proposes "
          "{} "
          "{} since its tables have changed; choose another file",
          before.number, before.proposal.variant.kernel,
          values_json(before.proposal.variant.values).dump(), now.variant.kernel,
          values_json(now.variant.values).dump());
    }
  }

  void record(Candidate trial, bool recorded) {
    if (trial.number == 0 && !recorded_.header.has_value()) {
      Json header = setup_.header;
      header["baseline"]["seconds"] =
          trial.outcome.baseline_seconds > 0 ? Json(trial.outcome.baseline_seconds) : Json(nullptr);
      ledger_.append(header);
    }
    trials_.push_back(std::move(trial));
    Candidate& added = trials_.back();
    added.kept = population_.take(added);
    added.leads = takes_the_lead(added);
    if (added.kept) {
      last_kept_ = added.generation;
    }
    spent_ += added.cost_seconds;
    if (!recorded) {
      ledger_.append(to_json(added, trials_));
      wrote_ = true;
    }
    if (setup_.on_trial) {
      setup_.on_trial(added, recorded);
    }
  }

  [[nodiscard]] bool takes_the_lead(const Candidate& trial) {
    if (trial.outcome.failed()) {
      return false;
    }
    const Variant& variant = trial.proposal.variant;
    const auto [leader, is_first] =
        leader_by_family_.emplace(find_space(setup_.spaces, variant.kernel).family, trial.number);
    if (!is_first &&
        !is_better(trial.outcome, trials_[static_cast<std::size_t>(leader->second)].outcome)) {
      return false;
    }
    leader->second = trial.number;
    return true;
  }

  /// Profiles the parent to guide the next generation if the kind of the population is kInsight.
  void profile_parent() {
    if (setup_.population != PopulationKind::kInsight || parents_.empty() ||
        parents_.front() == profiled_) {
      return;
    }
    const int parent = parents_.front();
    profiled_ = parent;
    if (const auto known = recorded_.findings.find(parent); known != recorded_.findings.end()) {
      findings_ = known->second;
      return;
    }
    const double began = setup_.now();
    std::string missing;
    findings_ =
        evaluator_.findings(trials_[static_cast<std::size_t>(parent)].proposal.variant, missing);
    const double cost = setup_.now() - began;
    Json line = {{"kind", "findings"},
                 {"of", parent},
                 {"findings", Json::array()},
                 {"missing", missing},
                 {"cost_seconds", cost}};
    for (const Hint& finding : findings_) {
      line["findings"].push_back(to_json(finding));
    }
    ledger_.append(line);
    spent_ += cost;
    if (!missing.empty() && setup_.on_note) {
      setup_.on_note("the next generations are not guided by a profile: " + missing);
    }
  }

  /// Measures the best candidate again, next to the baseline, since the best of many noisy
  /// measurements is biased.
  void confirm() {
    std::vector<int> order = population_.members();
    if (order.empty() || order.front() == 0 ||
        !is_better(trials_[static_cast<std::size_t>(order.front())].outcome,
                   trials_.front().outcome)) {
      return;
    }
    std::vector<int> others;
    for (const Candidate& trial : trials_) {
      if (!trial.outcome.failed() && std::ranges::find(order, trial.number) == order.end()) {
        others.push_back(trial.number);
      }
    }
    sort_largest_first(others, [&](int number) {
      return trials_[static_cast<std::size_t>(number)].outcome.speed_up;
    });
    order.insert(order.end(), others.begin(), others.end());
    order.resize(std::min<std::size_t>(order.size(), kMaxConfirmations));
    for (const int number : order) {
      const CandidateOutcome outcome = confirm_candidate(number);
      if (outcome.valid == true) {
        report_.best = number;
        report_.confirmed = outcome;
        return;
      }
      if (setup_.on_note) {
        setup_.on_note(
            fmt::format("candidate {} failed its second measurement: {}", number, outcome.why));
      }
    }
  }

  CandidateOutcome confirm_candidate(int number) {
    if (const auto known = recorded_.confirmations.find(number);
        known != recorded_.confirmations.end()) {
      return outcome_from(known->second);
    }
    const double began = setup_.now();
    // The seed draws other inputs than those with which the candidate was selected.
    const CandidateOutcome outcome = evaluator_.evaluate(
        trials_[static_cast<std::size_t>(number)].proposal.variant, setup_.seed + 1);
    const double cost = setup_.now() - began;
    spent_ += cost;
    ledger_.append(outcome_json(number, outcome, cost));
    wrote_ = true;
    return outcome;
  }

  const EvolveSetup& setup_;
  Evaluator& evaluator_;
  Proposer& proposer_;
  Ledger& ledger_;
  LedgerContents recorded_;
  std::vector<Candidate> trials_;
  std::set<std::string> tried_;
  Population population_;
  std::map<std::string, int> leader_by_family_;  // number of the best candidate of each family
  std::vector<int> parents_;
  std::vector<Hint> findings_;
  int profiled_ = -1;
  int last_kept_ = 0;  // generation in which a candidate was last kept
  double spent_ = 0.0;
  bool wrote_ = false;
  EvolveReport report_;
};

}  // namespace

int EvolveReport::valid() const {
  return static_cast<int>(std::ranges::count_if(
      trials, [](const Candidate& trial) { return trial.outcome.valid == true; }));
}

int EvolveReport::not_judged() const {
  return static_cast<int>(std::ranges::count_if(
      trials, [](const Candidate& trial) { return !trial.outcome.valid.has_value(); }));
}

double EvolveReport::valid_share() const {
  return trials.empty() ? 0.0 : static_cast<double>(valid()) / static_cast<double>(trials.size());
}

double EvolveReport::median_speed_up() const {
  std::vector<double> speed_ups;
  for (const Candidate& trial : trials) {
    if (!trial.outcome.failed() && trial.outcome.speed_up > 0) {
      speed_ups.push_back(trial.outcome.speed_up);
    }
  }
  return speed_ups.empty() ? 0.0 : median(std::move(speed_ups));
}

nlohmann::ordered_json EvolveReport::to_json() const {
  const auto measured = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  const double best_speed_up = confirmed.has_value() ? confirmed->speed_up
                               : trials.empty()      ? 0.0
                                                     : trials.front().outcome.speed_up;
  return {{"kind", "end"},
          {"why", why},
          {"words", why_in_words},
          {"candidates", trials.size()},
          {"valid_share", valid_share()},
          {"not_judged", not_judged()},
          {"median_speed_up", measured(median_speed_up())},
          {"best", best},
          {"best_speed_up", measured(best_speed_up)},
          {"cost_seconds", cost_seconds}};
}

bool is_better(const CandidateOutcome& candidate, const CandidateOutcome& other) {
  return candidate.speed_up > other.speed_up * (1 + kMinGain + candidate.spread);
}

EvolveReport evolve(const EvolveSetup& setup, Evaluator& evaluator, Proposer& proposer,
                    Ledger& ledger) {
  return Evolution(setup, evaluator, proposer, ledger).run();
}

}  // namespace fovea::lab
