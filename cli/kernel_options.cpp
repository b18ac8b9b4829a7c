// `fovea kernel`: the laboratory's commands, which work on the cards of kernels.
#include <memory>

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/options.hpp"

namespace fovea::cli {
namespace {

void add_cards(CLI::App& command, KernelArguments& arguments) {
  add_texts(command, "CARD", arguments.names,
            "Cards, as `fovea kernel list` names them (without any: all)");
}

void add_gpu(CLI::App& command, KernelArguments& arguments) {
  add_whole(command, "--gpu", {}, arguments.device, "Index of the GPU")->group(kComputeGroup);
}

void add_case(CLI::App& command, std::string& name) {
  add_text(
      command, "--case", "CASE", name,
      "Only this case (without it: all that the command is for; run and profile take the timed "
      "one)")
      ->group(kInputGroup);
}

void add_level(CLI::App& command, KernelArguments& arguments) {
  add_text(command, "--level", "LEVEL", arguments.level,
           "The level to launch (without it: the launcher's choice)")
      ->group(kInputGroup);
}

}  // namespace

void add_kernel(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("kernel", "The laboratory: check and time GPU kernels");
  command->require_subcommand(1);
  const auto arguments = std::make_shared<KernelArguments>();
  const auto add = [&](const char* name, const char* help, int (*action)(const KernelArguments&)) {
    CLI::App* sub = command->add_subcommand(name, help);
    add_cards(*sub, *arguments);
    arguments->json.add_to(*sub);
    sub->callback(
        [arguments, action, &run] { run = [arguments, action] { return action(*arguments); }; });
    return sub;
  };

  CLI::App* list = add("list", "List the cards", run_list);
  add_flag(*list, "-v,--verbose", arguments->verbose, "List their cases, too")->group(kReportGroup);
  explain(*list, {}, {"fovea kernel list", "fovea kernel list -v attention"});

  CLI::App* check = add(
      "check", "Compare kernels with float64, and prove that the gate notices mistakes", run_check);
  add_gpu(*check, *arguments);
  add_case(*check, arguments->check.only_case);
  add_seed(*check, arguments->check.seed)->group(kInputGroup);
  add_whole(*check, "--seeds", {1, 1000}, arguments->check.seeds,
            "How many seeds to check, from --seed on. Each seed after the first checks every card, "
            "every plan and every mutant on the small cases and on one of the large ones, in turn, "
            "and compares 12 tiles of an output instead of 48")
      ->group(kInputGroup);
  add_flag(*check, "--small", arguments->check.small,
           "Only what is quick under compute-sanitizer, and no mutants")
      ->group(kInputGroup);
  explain(*check, {}, {"fovea kernel check gemm_qkv", "fovea kernel check --seeds 20"});

  CLI::App* bench = add("bench", "Time kernels that have passed their gate", run_kernel_bench);
  add_gpu(*bench, *arguments);
  add_case(*bench, arguments->bench.only_case);
  add_seed(*bench, arguments->bench.seed)->group(kInputGroup);
  add_flag(*bench, "--peers,!--no-peers", arguments->bench.peers,
           "Also time the vendor's libraries on the same problem, or do not")
      ->group(kInputGroup);
  add_flag(*bench, "--plans", arguments->bench.plans, "Time every plan, not only the chosen one")
      ->group(kInputGroup);
  explain(*bench, {"--json=FILE keeps what FILE already holds of other measurements."},
          {"fovea kernel bench gemm_qkv --no-peers"});

  CLI::App* once = add("run", "Launch one case and nothing else, for profilers", run_once);
  add_gpu(*once, *arguments);
  add_case(*once, arguments->check.only_case);
  add_level(*once, *arguments);
  add_whole(*once, "--times", {1, 1000000}, arguments->times, "Number of launches")
      ->group(kInputGroup);
  explain(*once, {}, {"ncu fovea kernel run attention"});

  CLI::App* profile = add(
      "profile", "Run ncu on exactly one case's launches and say what bounds them", run_profile);
  add_gpu(*profile, *arguments);
  add_case(*profile, arguments->check.only_case);
  add_level(*profile, *arguments);
  add_flag(*profile, "--gate", arguments->gate,
           "Compare the level, or all levels that have gates, with their gates")
      ->group(kInputGroup);
  explain(*profile, {}, {"fovea kernel profile attention --level wgmma"});

  CLI::App* resources = add("resources",
                            "Compare registers, shared and local memory of the compiled kernels "
                            "with the limits of their cards",
                            run_resources);
  explain(*resources, {}, {"fovea kernel resources"});
  CLI::App* sass =
      add("sass", "Compare the instructions of the compiled kernels with what their cards demand",
          run_sass);
  add_flag(*sass, "--dump", arguments->dump, "Also print the machine code")->group(kReportGroup);
  explain(*sass, {}, {"fovea kernel sass gemm_qkv"});
}

}  // namespace fovea::cli
