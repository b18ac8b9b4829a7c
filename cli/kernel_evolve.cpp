// `fovea kernel evolve`: candidates over generations, until nothing better is found.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "lab/evolve/children.hpp"
#include "lab/evolve/evolve.hpp"
#include "lab/evolve/tuning_draw.hpp"
#include "lab/system/machine.hpp"

namespace fovea::cli {
namespace {

using Json = nlohmann::ordered_json;

lab::PopulationKind population_of(const std::string& word) {
  for (const auto kind : {lab::PopulationKind::kInsight, lab::PopulationKind::kElites}) {
    if (word == lab::to_string(kind)) {
      return kind;
    }
  }
  return lab::PopulationKind::kBest;
}

/// Candidate 0: the kernel's own values, but for those of --start.
lab::Variant start_of(const EvolveArguments& evolve, const std::string& kernel,
                      const std::vector<lab::TuningSpace>& spaces) {
  const lab::TuningSpace& space = kernel.empty() ? spaces.front() : lab::space_of(spaces, kernel);
  lab::Variant start{.kernel = space.kernel, .values = space.values, .files = {}};
  for (const auto& [name, value] : evolve.start) {
    const auto range = std::ranges::find(space.ranges, name, &lab::ParameterRange::name);
    if (range == space.ranges.end() ||
        std::ranges::find(range->values, value) == range->values.end()) {
      throw Error(
          fmt::format("{} cannot start with {} = {}; `fovea kernel parameters` lists its "
                      "tuning parameters and their values",
                      space.kernel, name, value));
    }
    std::ranges::find(start.values, name, &std::pair<std::string, int>::first)->second = value;
  }
  return start;
}

/// What `try` and `profile` are asked about: the card, and options of the case, level and GPU.
std::vector<std::string> question_of(const KernelArguments& arguments,
                                     const std::string& case_name) {
  const char* const option = lab::ProblemFields::are(case_name) ? "--problem" : "--case";
  std::vector<std::string> question = {arguments.names.front(), option, case_name, "--gpu",
                                       std::to_string(arguments.device)};
  if (!arguments.level.empty()) {
    question.insert(question.end(), {"--level", arguments.level});
  }
  return question;
}

/// The command that tries a candidate again.
std::string command_of(const lab::Variant& variant, const std::vector<std::string>& question,
                       const lab::KernelSources& sources, const std::string& folder) {
  Json changes = Json::object();
  for (const auto& [name, value] : variant.values) {
    if (lab::value_of(sources.kernel(variant.kernel).values, name) != value) {
      changes[name] = value;
    }
  }
  return fmt::format("fovea kernel try {} --kernel {} --parameters '{}'{}{}",
                     fmt::join(question, " "), variant.kernel, changes.dump(),
                     folder.empty() ? "" : " --sources ", folder);
}

void print_trial(const lab::Candidate& trial, const std::vector<lab::Candidate>& trials,
                 bool recorded) {
  const lab::CandidateOutcome& outcome = trial.outcome;
  std::string change = trial.proposal.reason;
  if (!trial.proposal.parents.empty()) {
    const int parent = trial.proposal.parents.front();
    change =
        fmt::format("{} of {}",
                    lab::change_between(trials[static_cast<std::size_t>(parent)].proposal.variant,
                                        trial.proposal.variant),
                    parent);
  }
  const std::string result =
      outcome.failed() ? fmt::format("INVALID at {}: {}", outcome.failed_at, outcome.why)
      : !outcome.valid.has_value() ? "not judged"
      : outcome.speed_up == 0      ? "valid, not timed"
                              : fmt::format("{:.4f} ms, speed-up {:.3f}{}", outcome.seconds * 1e3,
                                            outcome.speed_up, trial.kept ? ", kept" : "");
  std::cout << fmt::format("{:>4} {}{}{}{}\n", trial.number, recorded ? "(ledger) " : "",
                           io::printable(change), change.empty() ? "" : ": ", io::printable(result))
            << std::flush;
}

void print_report(const lab::EvolveReport& report, const std::string& command) {
  std::cout << fmt::format("ended: {}\n", report.why_in_words)
            << fmt::format("{} of {} candidates are valid ({:.0f}%), {:.0f} s\n", report.valid(),
                           report.trials.size(), report.valid_share() * 100, report.cost_seconds);
  if (report.not_judged() > 0) {
    std::cout << fmt::format("{} were not judged: they have not run, and may be wrong\n",
                             report.not_judged());
  }
  if (report.median_speed_up() == 0) {
    std::cout << "nothing was timed\n";
    return;
  }
  std::cout << fmt::format("median speed-up {:.3f}\n", report.median_speed_up());
  if (!report.confirmed.has_value()) {
    std::cout << fmt::format("none is faster than the start by {:.0f}% beyond the spread\n",
                             lab::kLeastGain * 100);
    return;
  }
  const bool holds = report.confirmed->speed_up >= 1 + lab::kLeastGain;
  std::cout << fmt::format(
      "best: candidate {}, speed-up {:.3f} when it was measured again ({:.3f} before){}\n  {}\n",
      report.best, report.confirmed->speed_up,
      report.trials[static_cast<std::size_t>(report.best)].outcome.speed_up,
      holds ? "" : ", which does not pay", command);
}

}  // namespace

int run_evolve(const KernelArguments& arguments) {
  const EvolveArguments& evolve = arguments.evolve;
  const lab::CandidateSetting setting = candidate_setting_of(arguments);
  if (!evolve.proposer.empty() && ::access(evolve.proposer.front().c_str(), X_OK) != 0 &&
      lab::find_program(evolve.proposer.front()).empty()) {
    throw Error(fmt::format("the proposer '{}' is no program that can be run",
                            io::printable(evolve.proposer.front())));
  }
  const lab::Case one = lab::find_case(*setting.card, setting.case_name);
  const lab::KernelSources sources = kernel_sources_of(arguments);
  gpu::DeviceInfo info = lab::assumed_device();
  const bool has_gpu = [&] {
    const std::unique_ptr<gpu::Device> device = open_gpu_if_any(arguments);
    info = device == nullptr ? info : device->info();
    return device != nullptr;  // and it is closed: only children launch kernels
  }();
  if (!has_gpu) {
    say("there is no GPU here, so nothing runs: the candidates show which are legal, compile and "
        "fit an H200");
  }
  std::vector<lab::TuningSpace> spaces = lab::tuning_spaces(info, sources, setting);
  const lab::TuningSpace& baseline = spaces.front();
  const auto workload = one.make(setting.seed);

  const Interruption interruption;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::vector<std::string> question = question_of(arguments, one.name);
  lab::EvolveSetup setup;
  setup.start = start_of(evolve, arguments.kernel, spaces);
  setup.population = population_of(evolve.population);
  setup.seed = setting.seed;
  setup.budget = evolve.budget;
  setup.patience = evolve.patience;
  setup.stop = Interruption::flag();
  setup.now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  setup.header = {
      {"kind", "run"},
      {"version", 1},
      {"machine", Json::parse(lab::machine_json(info))},
      {"card", setting.card->name},
      {"case", one.name},
      {"problem", workload->describe()},
      {"level", arguments.level},
      {"sources", arguments.sources.empty() ? Json() : Json("sha256:" + sources.digest())},
      {"population", evolve.population},
      {"seed", setting.seed},
      {"budget", evolve.budget_text},
      {"proposer",
       evolve.proposer.empty() ? std::vector<std::string>{"built-in"} : evolve.proposer},
      {"start",
       {{"kernel", setup.start.kernel}, {"parameters", lab::values_json(setup.start.values)}}},
      {"baseline",
       {{"kernel", baseline.kernel},
        {"plan", baseline.plan},
        {"parameters", lab::values_json(baseline.values)}}}};
  if (!has_gpu) {
    setup.header["machine"]["gpu"] = nullptr;
  }
  std::vector<lab::Candidate> shown;
  setup.on_trial = [&](const lab::Candidate& trial, bool recorded) {
    shown.push_back(trial);
    if (arguments.json.leaves_text()) {
      print_trial(trial, shown, recorded);
    }
  };
  setup.on_note = [](const std::string& note) { say(note); };

  lab::Ledger ledger(evolve.ledger, evolve.resume, evolve.overwrite);
  lab::ChildEvaluator evaluator({.program = self,
                                 .question = question,
                                 .sources = &sources,
                                 .spaces = spaces,
                                 .folder = arguments.sources,
                                 .most_seconds = evolve.candidate_seconds,
                                 .stop = setup.stop});
  std::unique_ptr<lab::Proposer> proposer;
  if (evolve.proposer.empty()) {
    proposer = std::make_unique<lab::DrawnProposer>(
        setting.seed, setup.population, [&](const lab::Variant& variant) {
          return workload->tuned(info, lab::kernel_named(variant.kernel), variant.values)
              .support.why;
        });
  } else {
    Json task = setup.header;
    task["kind"] = "task";
    task["operation"] = setting.card->operation;
    task["kernels"] = Json::parse(lab::to_json(spaces));
    task["limits"] = {{"threads_per_cta", 1024},
                      {"registers_per_thread", 255},
                      {"registers_per_sm", 65536},
                      {"shared_bytes_per_cta", info.shared_bytes_per_block},
                      {"spill_bytes", 0}};
    task["least_gain"] = lab::kLeastGain;
    task["sources"] = lab::sources_of(sources, spaces);
    proposer = std::make_unique<lab::ProgramProposer>(
        lab::ProgramProposer::Setup{.command = evolve.proposer,
                                    .task = std::move(task),
                                    .sources = &sources,
                                    .most_seconds = evolve.answer_seconds,
                                    .stop = setup.stop});
  }
  setup.spaces = std::move(spaces);
  const lab::EvolveReport report = lab::evolve(setup, evaluator, *proposer, ledger);

  const lab::Variant& best =
      report.trials.empty() ? setup.start
                            : report.trials[static_cast<std::size_t>(report.best)].proposal.variant;
  std::string folder = arguments.sources;
  if (!best.files.empty()) {
    folder = evolve.ledger + ".best";
    lab::write_sources(sources, best.files, folder);
  }
  const std::string command = command_of(best, question, sources, folder);
  if (arguments.json.leaves_text()) {
    print_report(report, command);
  }
  Json json = report.to_json();
  json["command"] = command;
  arguments.json.write(json);
  return report.why == "interrupted" ? kInterrupted : kDone;
}

}  // namespace fovea::cli
