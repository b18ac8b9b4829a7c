// `fovea kernel mutate`: mutates the kernels' PTX, and reports which mutants the emulator detects.
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "core/device_name.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "kernels/archs.hpp"
#include "lab/mutation/score.hpp"

namespace fovea::cli::kernel {
namespace {

struct MutateOptions : CardOptions {
  std::string emulator;  // architecture of the PTX, such as "emu:sm_90a"
  mutation::ScoreOptions score;
  double least_percent = 0.0;  // minimum percentage of caught mutants, for exit code 0
  bool prints_caught = false;
};

void print_left(const mutation::MutantResult& result) {
  const mutation::PtxMutant& mutant = result.mutant;
  std::cout << fmt::format(
      "{} {}, line {}{}: {}: {}{}\n",
      result.fate == mutation::Fate::kSurvived ? "survived" : "not reached", mutant.kernel,
      mutant.line, mutant.source.empty() ? "" : " (" + mutant.source + ")", mutant.kind,
      mutant.change,
      result.case_name.empty()
          ? ""
          : fmt::format(" [{} schedules of {}]", result.schedules, result.case_name));
  std::cout << std::flush;
}

void print_caught(const mutation::MutantResult& result) {
  const mutation::PtxMutant& mutant = result.mutant;
  std::cout << fmt::format("caught {}, line {}: {}: schedule {} of {}: {}\n", mutant.kernel,
                           mutant.line, mutant.kind, result.schedules, result.case_name,
                           result.reason)
            << std::flush;
}

int run_mutate(const MutateOptions& options) {
  const auto cards = cards_with_case(options.cards, options.score.only_case);
  mutation::ScoreOptions score_options = options.score;
  score_options.arch = emulator_arch(options.emulator);
  say(gpu::open_emulated_device({.arch = score_options.arch})->info().name);
  const bool has_text = options.json.prints_text();
  const std::vector<mutation::MutantResult> results =
      mutation::score(cards, score_options, [&](const mutation::MutantResult& result) {
        if (has_text && result.fate != mutation::Fate::kCaught) {
          print_left(result);
        } else if (has_text && options.prints_caught) {
          print_caught(result);
        }
      });
  const double share = mutation::share_caught(results);
  if (has_text) {
    std::cout << mutation::score_table(results) << fmt::format("{:.1f}% caught\n", share * 100);
  }
  options.json.write(nlohmann::ordered_json::parse(mutation::to_json(score_options, results)));
  return share * 100 >= options.least_percent ? kDone : kFailed;
}

}  // namespace

void add_mutate(CLI::App& kernel, Run& run) {
  const auto [command, options] =
      add_card_command(kernel, run, "mutate",
                       "Mutate kernels' PTX, one instruction at a time, and report which mutants "
                       "the emulator detects",
                       run_mutate);
  mutation::ScoreOptions& score = options.score;
  add_case(command, score.only_case);
  add_seed(command, score.seed);
  without_variable(add_choice(command, "--device", emulator_names(), options.emulator,
                              fmt::format("Architecture of the PTX (default: that of {})",
                                          emulator_name(gpu::kDefaultArch))
                                  .c_str()))
      ->group(kComputeGroup);
  add_only_kernel(command, score.only_kernel);
  add_integer(command, "--line", {1, 1'000'000'000}, score.only_line,
              "Run only the mutants of this line of the PTX");
  add_integer(
      command, "--most", {0, 1'000'000'000}, score.limit,
      "Maximum number of mutants per kernel, drawn evenly over their kinds with --seed (0: all)");
  add_integer(command, "--schedules", {1, 1'000'000'000}, score.schedules,
              "Number of schedules (orders of warps and blocks) to run for each mutant");
  add_real(command, "--least", "PERCENT", {0.0, 100.0}, options.least_percent,
           "Exit with 1 when a smaller share is caught of the mutants that a case executes")
      ->group(kReportGroup);
  add_flag(command, "--caught", options.prints_caught, "Also print how each was caught")
      ->group(kReportGroup);
  explain(command,
          {"Each mutant runs on the cards' small cases until the emulator reports an error, the "
           "result is wrong, or two schedules differ. Mutants run in parallel on all CPUs. "
           "docs/emulator.md lists the kinds of mutants, and explains why some survive."},
          {"fovea kernel mutate layer_norm", "fovea kernel mutate gemm_qkv_bf16 --most 20 --json"});
}

}  // namespace fovea::cli::kernel
