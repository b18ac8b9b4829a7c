// Options of `fovea kernel evolve`.
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "cli/kernel_options.hpp"

namespace fovea::cli {
namespace {

/// "20m" is a time, "200" a number of candidates.
void add_budget(CLI::App& command, EvolveArguments& evolve) {
  evolve.budget_text = "20m";
  command
      .add_option_function<std::string>(
          "--budget",
          [&evolve](const std::string& text) {
            constexpr double kMost = 1e6;
            std::size_t end = 0;
            double amount = 0;
            try {
              amount = std::stod(text, &end);
            } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): 0 is refused below
            }
            const std::string unit = text.substr(end);
            const double seconds = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
            const bool whole = unit.empty() && amount == std::floor(amount);
            const bool in_range = amount > 0 && amount <= kMost;
            if (!in_range || (seconds == 0 && !whole)) {
              throw CLI::ValidationError(
                  "--budget takes a time, such as 20m, 90s or 1h, or a number of candidates, such "
                  "as 200",
                  CLI::ExitCodes::ValidationError);
            }
            evolve.budget = {.trials = whole ? static_cast<int>(amount) : 0,
                             .seconds = amount * seconds};
            evolve.budget_text = text;
          },
          "The time, such as 20m, or the number of candidates, such as 200, after which it ends")
      ->type_name("BUDGET")
      ->default_str(evolve.budget_text)
      ->group(kInputGroup);
}

}  // namespace

void add_evolve(CLI::App& command, KernelArguments& arguments) {
  EvolveArguments& evolve = arguments.evolve;
  add_text(command, "--kernel", "KERNEL", arguments.kernel,
           "The kernel to start from (without it: the launcher's choice, or the level's)")
      ->group(kInputGroup);
  add_json_parameters(
      command, "--start",
      "Values of tuning parameters of the first candidate that differ from the kernel's "
      "own, as JSON",
      [&evolve](std::map<std::string, int> values) { evolve.start = std::move(values); });
  add_choice(command, "--population", {"best", "insight", "elites"}, evolve.population,
             "Who has children: the best candidate; the best, with the parameter that its "
             "profile names changed; or the best three, and two of them together")
      ->group(kInputGroup);
  add_budget(command, evolve);
  add_whole(command, "--patience", {0, 1000000}, evolve.patience,
            "How many generations of 4 candidates may pass without one that is kept (0: any "
            "number)")
      ->group(kInputGroup);
  add_texts(command, "--proposer", evolve.proposer,
            "A program and its arguments, which proposes candidates in lines of JSON (without it: "
            "they are drawn from the table of tuning parameters)")
      ->type_name("PROGRAM")
      ->group(kInputGroup);
  add_real(command, "--candidate-seconds", "SECONDS", {1, 3600}, evolve.candidate_seconds,
           "How long a candidate may take to be compiled, checked and timed")
      ->group(kInputGroup);
  add_real(command, "--answer-seconds", "SECONDS", {0.1, 3600}, evolve.answer_seconds,
           "How long the proposer may take for an answer")
      ->group(kInputGroup);
  names_output(command,
               add_text(command, "--ledger", "FILE", evolve.ledger,
                        "The file that gets a line of JSON for each candidate")
                   ->required()
                   ->group(kOutputGroup),
               OutputKind::kLedger);
  command.parse_complete_callback([&command, &evolve] { evolve.overwrite = overwrites(command); });
  add_flag(command, "--resume", evolve.resume,
           "Go on with the run of the ledger, with the same candidates as if it had not ended; "
           "the options must be the same, but for the budget and the patience")
      ->excludes("--overwrite")
      ->group(kOutputGroup);
}

}  // namespace fovea::cli
