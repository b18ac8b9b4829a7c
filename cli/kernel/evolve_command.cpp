// `fovea kernel evolve`: tries candidates over generations, until nothing better is found.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <exception>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/job_report.hpp"
#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"
#include "kernels/archs.hpp"
#include "lab/cards/card.hpp"
#include "lab/evolve/candidate.hpp"
#include "lab/evolve/children.hpp"
#include "lab/evolve/evolve.hpp"
#include "lab/evolve/tuning_draw.hpp"
#include "lab/system/kernel_sources.hpp"
#include "lab/system/ledger.hpp"
#include "lab/system/machine.hpp"
#include "lab/system/process.hpp"

namespace fovea::cli::kernel {
namespace {

using Json = nlohmann::ordered_json;

struct EvolveOptions : CardOptions {
  int gpu = 0;
  lab::CandidateSetting setting;
  std::string sources;  // folder with the kernels' sources; empty: the program's own
  std::string kernel;   // kernel of the first candidate; empty: that of the baseline
  Parameters start;     // parameters of the first candidate that differ from the kernel's own
  std::string population = "best";
  std::string budget_text = "20m";
  lab::EvolveBudget budget{.trials = 0, .seconds = 1200};
  int patience = 8;
  std::vector<std::string> proposer;  // program and its arguments; empty: the built-in proposer
  double candidate_seconds = 120;
  double answer_seconds = 120;
  std::string ledger;
  bool resume = false;
  bool overwrite = false;
};

lab::PopulationKind parse_population(const std::string& name) {
  for (const auto kind : {lab::PopulationKind::kInsight, lab::PopulationKind::kElites}) {
    if (name == lab::to_string(kind)) {
      return kind;
    }
  }
  return lab::PopulationKind::kBest;
}

/// Returns candidate 0: the kernel's own parameters, overridden by those of --start.
lab::Variant first_variant(const EvolveOptions& options,
                           const std::vector<lab::TuningSpace>& spaces) {
  const lab::TuningSpace& space =
      options.kernel.empty() ? spaces.front() : lab::find_space(spaces, options.kernel);
  lab::Variant start{.kernel = space.kernel, .values = space.values, .files = {}};
  for (const auto& [name, value] : options.start) {
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

/// Returns the arguments for `try` and `profile`: the card, and options for the case, the level and
/// the GPU.
std::vector<std::string> workload_arguments(const EvolveOptions& options,
                                            const std::string& case_name) {
  const char* const option = lab::ProblemFields::are(case_name) ? "--problem" : "--case";
  std::vector<std::string> arguments = {options.cards.front(), option, case_name, "--gpu",
                                        std::to_string(options.gpu)};
  if (!options.setting.level.empty()) {
    arguments.insert(arguments.end(), {"--level", options.setting.level});
  }
  return arguments;
}

/// Returns the command line that tries a candidate again.
std::string try_command_line(const lab::Variant& variant, const std::vector<std::string>& arguments,
                             const lab::KernelSources& sources, const std::string& folder) {
  Json changes = Json::object();
  for (const auto& [name, value] : variant.values) {
    if (lab::value_of(sources.kernel(variant.kernel).values, name) != value) {
      changes[name] = value;
    }
  }
  return fmt::format("fovea kernel try {} --kernel {} --parameters '{}'{}{}",
                     fmt::join(arguments, " "), variant.kernel, changes.dump(),
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
                             lab::kMinGain * 100);
    return;
  }
  const bool is_confirmed = report.confirmed->speed_up >= 1 + lab::kMinGain;
  std::cout << fmt::format(
      "best: candidate {}, speed-up {:.3f} when it was measured again ({:.3f} before){}\n  {}\n",
      report.best, report.confirmed->speed_up,
      report.trials[static_cast<std::size_t>(report.best)].outcome.speed_up,
      is_confirmed ? "" : ", which is too little", command);
}

/// The kernel to improve, and the GPU that candidates run on.
struct Subject {
  lab::CandidateSetting setting;
  lab::Case timed;
  lab::KernelSources sources;
  bool has_gpu = false;
  gpu::DeviceInfo info;
  std::vector<lab::TuningSpace> spaces;  // begins with the baseline's kernel
  std::unique_ptr<lab::Workload> workload;
};

Subject make_subject(const EvolveOptions& options) {
  lab::CandidateSetting setting = options.setting;
  setting.card = &single_card(options.cards);
  if (!options.proposer.empty() && ::access(options.proposer.front().c_str(), X_OK) != 0 &&
      lab::find_program(options.proposer.front()).empty()) {
    throw Error(fmt::format("the proposer '{}' cannot be run: it is not an executable program",
                            io::printable(options.proposer.front())));
  }
  Subject subject{.setting = setting,
                  .timed = lab::find_case(*setting.card, setting.case_name),
                  .sources = load_kernel_sources(options.sources),
                  .has_gpu = false,
                  .info = lab::assumed_device(),
                  .spaces = {},
                  .workload = nullptr};
  // The device is closed immediately, because only child processes launch kernels.
  if (const std::unique_ptr<gpu::Device> device = try_open_gpu(options.gpu)) {
    subject.has_gpu = true;
    subject.info = device->info();
  } else {
    say("no GPU was found, so nothing runs: candidates are only checked to be legal, to compile, "
        "and to fit on an H200");
  }
  subject.spaces = lab::tuning_spaces(subject.info, subject.sources, setting);
  subject.workload = subject.timed.make(setting.seed);
  return subject;
}

/// Returns the first line of the ledger.
Json ledger_header(const EvolveOptions& options, const Subject& subject,
                   const lab::Variant& start) {
  const lab::TuningSpace& baseline = subject.spaces.front();
  Json header = {
      {"kind", "run"},
      {"version", 1},
      {"machine", Json::parse(lab::machine_json(subject.info))},
      {"card", subject.setting.card->name},
      {"case", subject.timed.name},
      {"problem", subject.workload->describe()},
      {"level", subject.setting.level},
      {"sources", options.sources.empty() ? Json() : Json("sha256:" + subject.sources.digest())},
      {"population", options.population},
      {"seed", subject.setting.seed},
      {"budget", options.budget_text},
      {"proposer",
       options.proposer.empty() ? std::vector<std::string>{"built-in"} : options.proposer},
      {"start", {{"kernel", start.kernel}, {"parameters", lab::values_json(start.values)}}},
      {"baseline",
       {{"kernel", baseline.kernel},
        {"plan", baseline.plan},
        {"parameters", lab::values_json(baseline.values)}}}};
  if (!subject.has_gpu) {
    header["machine"]["gpu"] = nullptr;
  }
  return header;
}

lab::EvolveSetup make_setup(const EvolveOptions& options, const Subject& subject) {
  lab::EvolveSetup setup;
  setup.spaces = subject.spaces;
  setup.start = first_variant(options, subject.spaces);
  setup.population = parse_population(options.population);
  setup.seed = subject.setting.seed;
  setup.budget = options.budget;
  setup.patience = options.patience;
  setup.stop = Interruption::flag();
  setup.now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  setup.header = ledger_header(options, subject, setup.start);
  setup.on_trial = [prints = options.json.prints_text(), shown = std::vector<lab::Candidate>()](
                       const lab::Candidate& trial, bool recorded) mutable {
    shown.push_back(trial);
    if (prints) {
      print_trial(trial, shown, recorded);
    }
  };
  setup.on_note = [](const std::string& note) { say(note); };
  return setup;
}

std::unique_ptr<lab::Proposer> make_proposer(const EvolveOptions& options, const Subject& subject,
                                             const lab::EvolveSetup& setup) {
  if (options.proposer.empty()) {
    return std::make_unique<lab::DrawnProposer>(
        setup.seed, setup.population, [&subject](const lab::Variant& variant) {
          return subject.workload
              ->tuned(subject.info, lab::kernel_named(variant.kernel), variant.values)
              .support.why;
        });
  }
  Json task = setup.header;
  task["kind"] = "task";
  task["operation"] = subject.setting.card->operation;
  task["kernels"] = Json::parse(lab::to_json(subject.spaces));
  task["limits"] = {
      {"threads_per_cta", 1024},
      {"registers_per_thread", 255},
      {"registers_per_sm", gpu::arch_up_to(subject.info.arch(), gpu::kArchs).registers},
      {"shared_bytes_per_cta", subject.info.shared_bytes_per_block},
      {"spill_bytes", 0}};
  task["least_gain"] = lab::kMinGain;
  std::vector<std::string> kernels;
  std::ranges::transform(subject.spaces, std::back_inserter(kernels), &lab::TuningSpace::kernel);
  task["sources"] = subject.sources.files_of(kernels);
  return std::make_unique<lab::ProgramProposer>(
      lab::ProgramProposer::Setup{.command = options.proposer,
                                  .task = std::move(task),
                                  .sources = &subject.sources,
                                  .max_seconds = options.answer_seconds,
                                  .stop = setup.stop});
}

int run_evolve(const EvolveOptions& options) {
  const Subject subject = make_subject(options);
  const Interruption interruption;
  const std::vector<std::string> arguments = workload_arguments(options, subject.timed.name);
  const lab::EvolveSetup setup = make_setup(options, subject);
  lab::Ledger ledger(options.ledger, options.resume, options.overwrite);
  lab::ChildEvaluator evaluator({.program = current_program(),
                                 .question = arguments,
                                 .sources = &subject.sources,
                                 .spaces = subject.spaces,
                                 .folder = options.sources,
                                 .max_seconds = options.candidate_seconds,
                                 .stop = setup.stop});
  const std::unique_ptr<lab::Proposer> proposer = make_proposer(options, subject, setup);
  const lab::EvolveReport report = lab::evolve(setup, evaluator, *proposer, ledger);

  const lab::Variant& best =
      report.trials.empty() ? setup.start
                            : report.trials[static_cast<std::size_t>(report.best)].proposal.variant;
  std::string folder = options.sources;
  if (!best.files.empty()) {
    folder = options.ledger + ".best";
    subject.sources.with_files(best.files).write(folder);
  }
  const std::string command = try_command_line(best, arguments, subject.sources, folder);
  if (options.json.prints_text()) {
    print_report(report, command);
  }
  Json json = report.to_json();
  json["command"] = command;
  options.json.write(json);
  return report.why == "interrupted" ? kInterrupted : kDone;
}

/// Adds --budget, a time such as "20m" or a number of candidates such as "200".
void add_budget(CLI::App& command, EvolveOptions& options) {
  command
      .add_option_function<std::string>(
          "--budget",
          [&options](const std::string& text) {
            constexpr double kMaxAmount = 1e6;
            std::size_t end = 0;
            double amount = 0;
            try {
              amount = std::stod(text, &end);
            } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): 0 is rejected below
            }
            const std::string unit = text.substr(end);
            const double seconds = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
            const bool is_count = unit.empty() && amount == std::floor(amount);
            const bool is_in_range = amount > 0 && amount <= kMaxAmount;
            if (!is_in_range || (seconds == 0 && !is_count)) {
              throw CLI::ValidationError(
                  "--budget takes a time, such as 20m, 90s or 1h, or a number of candidates, such "
                  "as 200",
                  CLI::ExitCodes::ValidationError);
            }
            options.budget = {.trials = is_count ? static_cast<int>(amount) : 0,
                              .seconds = amount * seconds};
            options.budget_text = text;
          },
          "Time, such as 20m, or number of candidates, such as 200, after which the run ends")
      ->type_name("BUDGET")
      ->default_str(options.budget_text);
}

void add_evolution(CLI::App& command, EvolveOptions& options) {
  add_first_kernel(command, options.kernel);
  add_json_parameters(
      command, "--start",
      "Tuning parameters of the first candidate that differ from the kernel's own, as JSON",
      [&options](Parameters values) { options.start = std::move(values); });
  add_choice(command, "--population", {"best", "insight", "elites"}, options.population,
             "Choice of parents: the best candidate; the best, with a change to the parameter that "
             "its profile suggests; or the best three, also combined in pairs");
  add_budget(command, options);
  add_integer(
      command, "--patience", {0, 1000000}, options.patience,
      "Number of generations of 4 candidates that may pass without one that is kept (0: any "
      "number)");
  add_texts(command, "--proposer", options.proposer,
            "Program, with its arguments, that proposes candidates as lines of JSON (default: draw "
            "them from the table of tuning parameters)")
      ->type_name("PROGRAM");
  add_real(command, "--candidate-seconds", "SECONDS", {1, 3600}, options.candidate_seconds,
           "Time limit for compiling, checking and timing a candidate");
  add_real(command, "--answer-seconds", "SECONDS", {0.1, 3600}, options.answer_seconds,
           "Time limit for an answer of the proposer");
  add_output_text(command, "--ledger", "FILE", options.ledger, OutputKind::kLedger,
                  "File to which a line of JSON is appended for each candidate")
      ->required()
      ->group(kOutputGroup);
  command.parse_complete_callback(
      [&command, &options] { options.overwrite = has_overwrite_flag(command); });
  add_flag(command, "--resume", options.resume,
           "Continue the run of the ledger, with the same candidates as if it had not ended; all "
           "options except the budget and the patience must be the same")
      ->excludes("--overwrite")
      ->group(kOutputGroup);
}

}  // namespace

void add_evolve(CLI::App& kernel, Run& run) {
  const auto [command, options] =
      add_card_command(kernel, run, "evolve",
                       "Change a kernel's tuning parameters or sources over generations, and keep "
                       "candidates that are faster",
                       run_evolve);
  add_level_on_gpu(command, options.gpu, options.setting.case_name, options.setting.level);
  add_seed(command, options.setting.seed);
  add_sources(command, options.sources);
  add_evolution(command, options);
  explain(command,
          {"A candidate is kept when it is faster than the best one by 3% beyond the spread of the "
           "measurements; the best one is measured again at the end. docs/laboratory.md describes "
           "the ledger and the proposer's input and output."},
          {"fovea kernel evolve attention --level wmma --budget 20m --ledger wmma.jsonl",
           "fovea kernel evolve gemm_out --ledger out.jsonl --proposer python3 mine.py"});
}

}  // namespace fovea::cli::kernel
