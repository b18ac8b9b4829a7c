// `fovea kernel mutate`.
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "core/device_name.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "lab/cards/card.hpp"
#include "lab/mutation/score.hpp"

namespace fovea::cli {
namespace {

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

}  // namespace

void add_mutate_options(CLI::App& command, KernelArguments& arguments) {
  MutateArguments& mutate = arguments.mutate;
  without_variable(add_choice(command, "--device",
                              {"emu", "emu:sm_80", "emu:sm_90a", "emu:sm_100a"}, arguments.emulator,
                              "Whose PTX (without it: that of emu:sm_90a)"))
      ->group(kComputeGroup);
  add_text(command, "--kernel", "KERNEL", arguments.kernel, "Only this kernel of the cards")
      ->group(kInputGroup);
  add_whole(command, "--line", {1, 1'000'000'000}, mutate.line,
            "Only what is at this line of the PTX")
      ->group(kInputGroup);
  add_whole(command, "--most", {0, 1'000'000'000}, mutate.most,
            "Mutants of each kernel, drawn by --seed, of each kind as many as of others (0: all)")
      ->group(kInputGroup);
  add_whole(command, "--schedules", {1, 1'000'000'000}, mutate.schedules,
            "Orders of warps and blocks that a mutant must survive")
      ->group(kInputGroup);
  add_real(command, "--least", "PERCENT", {0.0, 100.0}, mutate.least_percent,
           "Exit with 1 when fewer of the mutants that a case reaches are caught")
      ->group(kReportGroup);
  add_flag(command, "--caught", mutate.caught, "Also print how each was caught")
      ->group(kReportGroup);
  explain(command,
          {"Each mutant runs on the cards' small cases until the emulator finds something, the "
           "result is wrong, or two schedules differ. Mutants run side by side on all CPUs. "
           "docs/emulator.md says which there are, and why some survive."},
          {"fovea kernel mutate layer_norm", "fovea kernel mutate gemm_qkv_bf16 --most 20 --json"});
}

int run_mutate(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  require_case(cards, arguments.check.only_case);
  const DeviceName name =
      parse_device(arguments.emulator.empty() ? "emu" : arguments.emulator).value_or(DeviceName{});
  const mutation::ScoreOptions options{.arch = name.number,
                                       .seed = arguments.check.seed,
                                       .schedules = arguments.mutate.schedules,
                                       .most = arguments.mutate.most,
                                       .only_case = arguments.check.only_case,
                                       .only_kernel = arguments.kernel,
                                       .only_line = arguments.mutate.line};
  say(gpu::open_emulated_device({.arch = options.arch})->info().name);
  const bool has_text = arguments.json.leaves_text();
  const std::vector<mutation::MutantResult> results =
      mutation::score(cards, options, [&](const mutation::MutantResult& result) {
        if (has_text && result.fate != mutation::Fate::kCaught) {
          print_left(result);
        } else if (has_text && arguments.mutate.caught) {
          print_caught(result);
        }
      });
  const double share = mutation::share_caught(results);
  if (has_text) {
    std::cout << mutation::table_of(results) << fmt::format("{:.1f}% caught\n", share * 100);
  }
  arguments.json.write(nlohmann::ordered_json::parse(mutation::to_json(options, results)));
  return share * 100 >= arguments.mutate.least_percent ? kDone : kFailed;
}

}  // namespace fovea::cli
