// `fovea kernel`: the laboratory's commands, which work on the cards of kernels.
#include "cli/kernel_options.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/options.hpp"
#include "cli/time_gate.hpp"
#include "core/device_name.hpp"
#include "lab/cards/card.hpp"

namespace fovea::cli {
namespace {

void add_cards(CLI::App& command, KernelArguments& arguments) {
  add_texts(command, "CARD", arguments.names,
            "Cards, as `fovea kernel list` names them (without any: all)");
}

void add_gpu(CLI::App& command, KernelArguments& arguments) {
  add_whole(command, "--gpu", {}, arguments.device, "Index of the GPU")->group(kComputeGroup);
}

/// Another place than a GPU.
CLI::Option* add_emulator(CLI::App& command, KernelArguments& arguments) {
  CLI::Option* const device =
      add_text(command, "--device", "emu|emu:ARCH", arguments.emulator,
               "Run on the emulator of an sm_90a, or of ARCH, sm_80, sm_90a "
               "or sm_100a, and no GPU: cases that are quick there");
  without_variable(device)->group(kComputeGroup)->check([](const std::string& text) -> std::string {
    const std::optional<DeviceName> name = parse_device(text);
    return name && name->kind == DeviceKind::kEmulator
               ? ""
               : fmt::format("'{}' is not one of emu, emu:sm_80, emu:sm_90a, emu:sm_100a", text);
  });
  return device;
}

void add_schedules(CLI::App& command, KernelArguments& arguments) {
  add_whole(command, "--schedules", {1, 1'000'000'000}, arguments.schedules,
            "How many orders of warps and blocks the emulator runs each plan in: all must give the "
            "same bytes")
      ->group(kInputGroup);
}

void add_captures(CLI::App& command, KernelArguments& arguments) {
  add_text(command, "--captures", "FILE", arguments.captures,
           "Also compare the emulator's outputs with what a GPU computed, a file of `fovea kernel "
           "capture`")
      ->group(kInputGroup);
}

void add_case(CLI::App& command, std::string& name) {
  CLI::Option* const listed =
      add_text(command, "--case", "CASE", name,
               "Only this case (without it: all that the command is for, or the timed one)")
          ->group(kInputGroup);
  // The name of a case that is not listed: it is made from its fields.
  add_text(command, "--problem", "FIELDS", name,
           "The timed case with other sizes, which no card has to list, as m=4099,n=1728,k=1152 "
           "(attention: batch, heads, kv_heads, length or queries and keys, width, causal, type)")
      ->group(kInputGroup)
      ->excludes(listed)
      ->check([](const std::string& text) {
        return lab::ProblemFields::are(text) ? "" : "it is written as name=value,name=value";
      });
}

void add_level(CLI::App& command, KernelArguments& arguments) {
  add_text(command, "--level", "LEVEL", arguments.level,
           "The level to launch (without it: the launcher's choice)")
      ->group(kInputGroup);
}

}  // namespace

std::optional<std::map<std::string, int>> parameters_in(const nlohmann::json& json) {
  if (!json.is_object()) {
    return std::nullopt;
  }
  std::map<std::string, int> values;
  for (const auto& [name, value] : json.items()) {
    const bool whole = value.is_number_integer() &&
                       value >= nlohmann::json(std::numeric_limits<int>::min()) &&
                       value <= nlohmann::json(std::numeric_limits<int>::max());
    if (!whole) {
      return std::nullopt;
    }
    values[name] = value.get<int>();
  }
  return values;
}

CLI::Option* add_json_parameters(CLI::App& command, const char* name, const char* help,
                                 const std::function<void(std::map<std::string, int>)>& take) {
  return command
      .add_option_function<std::string>(
          name,
          [name, take](const std::string& text) {
            auto values = parameters_in(nlohmann::json::parse(text, nullptr, false));
            if (!values.has_value()) {
              throw CLI::ValidationError(
                  std::string(name) +
                      " takes a JSON object of whole numbers, such as {\"stages\": 4}",
                  CLI::ExitCodes::ValidationError);
            }
            take(std::move(*values));
          },
          help)
      ->type_name("JSON")
      ->group(kInputGroup);
}

namespace {

void add_parameters(CLI::App& command, KernelArguments& arguments) {
  add_json_parameters(command, "--parameters",
                      "Values of tuning parameters that differ from the kernel's own, as JSON",
                      [&arguments](std::map<std::string, int> values) {
                        arguments.parameters = std::move(values);
                      });
}

void add_sources(CLI::App& command, KernelArguments& arguments) {
  add_text(command, "--sources", "FOLDER", arguments.sources,
           "A folder with kernels/, whose files replace the program's sources")
      ->group(kInputGroup);
}

void add_plan(CLI::App& command, KernelArguments& arguments) {
  add_text(command, "--plan", "PLAN", arguments.plan,
           "The plan to launch, as `fovea kernel bench --plans` names it (without it: the "
           "launcher's choice)")
      ->group(kInputGroup);
}

void add_judge_options(CLI::App& command, KernelArguments& arguments) {
  JudgeArguments& judge = arguments.judge;
  add_text(command, "TASK", "TASK", judge.task, "A task in KernelBench's form, a Python file")
      ->required();
  add_text(command, "ANSWER", "ANSWER", judge.answer, "A Python file with the class ModelNew")
      ->required();
  arguments.json.add_to(command);
  add_choice(command, "--device", {"cuda", "cpu"}, judge.device, "Where both run")
      ->group(kComputeGroup);
  add_whole(command, "--seeds", {1, 1000}, judge.seeds,
            "How many seeds to draw inputs from, from --seed on")
      ->group(kInputGroup);
  add_seed(command, arguments.check.seed)->group(kInputGroup);
  add_whole(command, "--time-limit", {1, 86400}, judge.time_limit,
            "Seconds that the answer may take, with its compilation")
      ->group(kComputeGroup);
  add_flag(command, "--time,!--no-time", judge.time, "Time a right answer and Model, or do not")
      ->group(kReportGroup);
  add_flag(command, "--compile,!--no-compile", judge.compile,
           "Also time Model in torch.compile, on GPUs, or do not")
      ->group(kReportGroup);
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
  add_emulator(*check, *arguments)->excludes("--gpu");
  add_schedules(*check, *arguments);
  add_captures(*check, *arguments);
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
  explain(
      *check,
      {"On the emulator there is one seed, no mutants, and beside wrong results what kernels do "
       "wrong on the way: docs/emulator.md lists it."},
      {"fovea kernel check gemm_qkv_bf16", "fovea kernel check --seeds 20",
       "fovea kernel check layer_norm --device emu:sm_80 --schedules 10"});

  CLI::App* emulate = add("emulate", "Run one schedule of a case on the emulator, as check does",
                          run_kernel_emulate);
  add_emulator(*emulate, *arguments);
  add_case(*emulate, arguments->check.only_case);
  add_plan(*emulate, *arguments);
  add_seed(*emulate, arguments->check.seed)->group(kInputGroup);
  add_whole(*emulate, "--schedule", {0, 999'999'999}, arguments->schedule,
            "Which of the schedules of `fovea kernel check --device emu`, from 0")
      ->group(kInputGroup);
  add_flag(*emulate, "--overlapping", arguments->overlapping,
           "Run it behind a grid that still writes its input, then behind itself, as grids overlap "
           "on GPUs; outputs are not judged")
      ->group(kInputGroup);
  add_trace(*emulate, arguments->trace);
  explain(*emulate,
          {"What `fovea kernel check --device emu` finds it names with the options that run it "
           "again. Without --case it is the card's first case that is quick.",
           "Exit codes: 0 the outputs are right and nothing was found, 1 something is wrong."},
          {"fovea kernel emulate layer_norm --case rows3_width768 --schedule 2",
           "fovea kernel emulate gemm_out_bf16 --seed 7 --trace trace.txt"});

  CLI::App* capture = add("capture",
                          "Keep what a GPU computes of the cards' small cases, to compare the "
                          "emulator with it",
                          run_capture);
  add_gpu(*capture, *arguments);
  add_emulator(*capture, *arguments)->excludes("--gpu");
  add_schedules(*capture, *arguments);
  add_case(*capture, arguments->check.only_case);
  add_seed(*capture, arguments->check.seed)->group(kInputGroup);
  add_whole(*capture, "--words", {0, 1 << 30}, arguments->words,
            "How many words of four bytes of each output are kept beside its hash, from all over "
            "it (0: 53 of approximate ones, 5 of others)")
      ->group(kOutputGroup);
  without_variable(
      add_output(*capture, arguments->output, OutputKind::kCaptures, "FILE", "File to write"));
  explain(*capture,
          {"The cases, inputs, plans and grids are those of `fovea kernel check --device emu`, "
           "which takes the file by --captures. Outputs that are wrong are told and not kept."},
          {"fovea kernel capture -o h100.captures"});

  CLI::App* mutate = add(
      "mutate", "Change kernels' PTX, one instruction at a time, and see what the emulator notices",
      run_mutate);
  add_case(*mutate, arguments->check.only_case);
  add_seed(*mutate, arguments->check.seed)->group(kInputGroup);
  add_mutate_options(*mutate, *arguments);

  CLI::App* bench = add("bench", "Time kernels that have passed their gate", run_kernel_bench);
  add_gpu(*bench, *arguments);
  add_case(*bench, arguments->bench.only_case);
  add_seed(*bench, arguments->bench.seed)->group(kInputGroup);
  add_flag(*bench, "--peers,!--no-peers", arguments->bench.peers,
           "Also time the vendor's libraries on the same problem, or do not")
      ->group(kInputGroup);
  add_flag(*bench, "--plans", arguments->bench.plans, "Time every plan, not only the chosen one")
      ->group(kInputGroup);
  add_flag(*bench, "--gate", arguments->gate,
           "Exit with 1 when a card is slower beside a peer than its speed gate asks")
      ->group(kInputGroup);
  add_against(*bench, arguments->against);
  names_output(*bench, bench->get_option("--json"), OutputKind::kBenchReport);
  explain(*bench, {"--json=FILE keeps what FILE already holds of other measurements."},
          {"fovea kernel bench gemm_qkv_bf16 --no-peers"});

  CLI::App* once = add("run", "Launch one case and nothing else, for profilers", run_once);
  add_gpu(*once, *arguments);
  add_case(*once, arguments->check.only_case);
  add_level(*once, *arguments);
  add_whole(*once, "--times", {1, 1000000}, arguments->times, "Number of launches")
      ->group(kInputGroup);
  add_plan(*once, *arguments);
  add_sources(*once, *arguments);
  add_parameters(*once, *arguments);
  add_flag(*once, "--steps", arguments->steps,
           "Say {\"ready\": ...} when inputs and clocks are ready, then take a sample of the time "
           "for each line \"sample\", until the input ends")
      ->group(kInputGroup);
  explain(*once, {}, {"ncu fovea kernel run attention"});

  CLI::App* compare =
      add("compare", "Sample two sides in turns and say whether B is faster than A", run_compare);
  CompareArguments& with = arguments->compare;
  compare->get_option("CARD")->description("A card; or two saved files, profiles or bench reports");
  add_gpu(*compare, *arguments);
  add_case(*compare, arguments->check.only_case);
  add_level(*compare, *arguments);
  add_plan(*compare, *arguments);
  add_sources(*compare, *arguments);
  add_parameters(*compare, *arguments);
  add_text(*compare, "--program", "PROGRAM", with.program,
           "The program that runs A (without it: this one)")
      ->group(kInputGroup);
  add_text(*compare, "--with-program", "PROGRAM", with.with_program, "The program that runs B")
      ->group(kInputGroup);
  add_text(*compare, "--with-level", "LEVEL", with.with_level, "B's level")->group(kInputGroup);
  add_text(*compare, "--with-plan", "PLAN", with.with_plan, "B's plan")->group(kInputGroup);
  add_text(*compare, "--with-sources", "FOLDER", with.with_sources, "B's sources")
      ->group(kInputGroup);
  add_json_parameters(
      *compare, "--with-parameters", "B's tuning parameters, as JSON",
      [&with](std::map<std::string, int> values) { with.with_parameters = std::move(values); });
  add_seed(*compare, arguments->check.seed)->group(kInputGroup);
  add_real(*compare, "--margin", "PERCENT", {0, 100}, with.threshold_percent,
           "The difference that counts (0: 1% of samples, 3% of files; never less than 5% of "
           "profiles, which time one launch)")
      ->group(kInputGroup);
  add_whole(*compare, "--most-pairs", {16, 100000}, with.most_pairs,
            "Pairs of samples after which an ambiguous comparison ends")
      ->group(kInputGroup);
  add_flag(*compare, "--profile", with.profile,
           "Also run ncu on both sides, and name the figures that moved")
      ->group(kReportGroup);
  names_output(
      *compare,
      add_text(*compare, "--csv", "FILE", with.csv, "Write what was compared to FILE, a row each")
          ->group(kReportGroup),
      OutputKind::kTable);
  add_flag(
      *compare, "--gate", arguments->gate,
      "Exit with 1 when B is SLOWER; of two bench reports when a time of B fails the gate that "
      "`fovea kernel bench --against A` has")
      ->group(kReportGroup);
  explain(
      *compare,
      {"What B is not given it takes from A. The sides run as two programs on one GPU, never at "
       "the same time, in an order that is drawn. B is FASTER or SLOWER when the whole 99.9% "
       "interval of the ratio is beyond the threshold, SAME when it is within, else AMBIGUOUS.",
       "The exit code is 0 whatever the verdict, without --gate."},
      {"fovea kernel compare attention --level mma --with-level wgmma",
       "fovea kernel compare gemm_out --with-program ../other/fovea --gate",
       "fovea kernel compare gemm_out --with-sources ../other --profile",
       "fovea kernel compare before.json after.json"});

  CLI::App* profile = add(
      "profile", "Run ncu on exactly one case's launches and say what bounds them", run_profile);
  add_gpu(*profile, *arguments);
  add_case(*profile, arguments->check.only_case);
  add_level(*profile, *arguments);
  add_plan(*profile, *arguments);
  add_sources(*profile, *arguments);
  add_parameters(*profile, *arguments);
  names_output(
      *profile,
      add_text(*profile, "-o,--output", "FILE", arguments->output,
               "Keep ncu's report in FILE.ncu-rep and all figures, stalls, places and findings in "
               "FILE.json; FILE-1.json, FILE-2.json, ... when the case launches several kernels. "
               "With --gate a folder, which gets those of every case")
          ->group(kOutputGroup),
      OutputKind::kProfile);
  add_flag(*profile, "--gate", arguments->gate,
           "Compare all cases that have gates, or those of --case and --level, with their gates")
      ->group(kInputGroup);
  names_output(
      *profile,
      add_text(*profile, "--record", "FILE", arguments->record,
               "The file that keeps what --gate measured, in the place of what it held: kernels "
               "are chosen by it where FOVEA_GATE_RECORD names it")
          ->group(kInputGroup),
      OutputKind::kGateRecord);
  explain(*profile,
          {"Beside the counters it names the two or three rules that fire: what the figures mean, "
           "and what to try. Places in the sources need a compiler and nvdisasm."},
          {"fovea kernel profile attention --level wgmma",
           "fovea kernel profile gemm_qkv_bf16 --parameters '{\"stages\": 3}' --output fewer"});

  CLI::App* predict = add(
      "predict", "Say how long kernels should take on a GPU that need not be there", run_predict);
  add_predict_options(*predict, *arguments);
  add_case(*predict, arguments->check.only_case);

  CLI::App* parameters = add("parameters",
                             "List the tuning parameters of the kernels that can run a case, and "
                             "the values that they may take",
                             run_parameters);
  add_gpu(*parameters, *arguments);
  add_case(*parameters, arguments->check.only_case);
  add_level(*parameters, *arguments);
  explain(*parameters, {}, {"fovea kernel parameters attention --level wmma"});

  CLI::App* attempt = add("try",
                          "Compile a kernel with other tuning parameters or sources, check it, and "
                          "time it beside the launcher's choice",
                          run_try);
  add_gpu(*attempt, *arguments);
  add_case(*attempt, arguments->check.only_case);
  add_level(*attempt, *arguments);
  add_seed(*attempt, arguments->check.seed)->group(kInputGroup);
  add_text(*attempt, "--kernel", "KERNEL", arguments->kernel,
           "The kernel to start from (without it: the launcher's choice, or the level's)")
      ->group(kInputGroup);
  add_parameters(*attempt, *arguments);
  add_sources(*attempt, *arguments);
  add_text(*attempt, "--unit", "FILE", arguments->unit,
           "A file that replaces the one source in which the kernel is written")
      ->group(kInputGroup);
  add_flag(
      *attempt, "--batch", arguments->batch,
      "Take one candidate a line from standard input, such as {\"parameters\": {\"stages\": 3}}, "
      "and write each result as one line of JSON")
      ->group(kInputGroup);
  add_whole(*attempt, "--most-seconds", {0, 86400}, arguments->most_seconds,
            "Be killed after this time, because a kernel may never end (0: never)")
      ->group(kInputGroup);
  explain(*attempt,
          {"The gates are asked in order, the cheap ones first: legal, compile, resources, small "
           "cases, mutants, the case itself, time. Without a GPU those of the compiler are asked.",
           "The exit code is 0 for a valid candidate, 1 for an invalid one, 3 for one that was not "
           "judged, because it cannot run here."},
          {"fovea kernel try attention --level wmma --parameters '{\"stages\": 3}'"});

  CLI::App* task = add("export", "Write a case as a task for kernels of others", run_export);
  add_case(*task, arguments->check.only_case);
  add_flag(*task, "--kernelbench", arguments->judge.kernelbench,
           "In KernelBench's form: a Python file with Model, get_inputs and get_init_inputs")
      ->required()
      ->group(kOutputGroup);
  without_variable(
      add_output(*task, arguments->judge.output, OutputKind::kTask, "FILE", "File to write"));
  explain(*task, {"Without --case it is the timed case."},
          {"fovea kernel export layer_norm --kernelbench -o task.py"});

  CLI::App* judge =
      command->add_subcommand("judge", "Judge a kernel of others: right or wrong, and how fast");
  add_judge_options(*judge, *arguments);
  judge->callback([arguments, &run] { run = [arguments] { return run_judge(*arguments); }; });
  explain(*judge,
          {"It runs the Python of FOVEA_PYTHON, or python3, which needs torch and Fovea's package. "
           "The answer runs in a process of its own, with your rights: it is no sandbox.",
           "The exit code is 0 for RIGHT, 1 for WRONG, 2 when the task or the arguments cannot be "
           "used, or the judge itself fails."},
          {"fovea kernel judge task.py answer.py --device cuda"});

  CLI::App* evolve = add("evolve",
                         "Change a kernel's tuning parameters or sources over generations, and "
                         "keep what measures faster",
                         run_evolve);
  add_gpu(*evolve, *arguments);
  add_case(*evolve, arguments->check.only_case);
  add_level(*evolve, *arguments);
  add_seed(*evolve, arguments->check.seed)->group(kInputGroup);
  add_sources(*evolve, *arguments);
  add_evolve(*evolve, *arguments);
  explain(*evolve,
          {"A candidate is kept when it is faster than the best by 3% beyond the spread of the "
           "measurements; the best is measured once more at the end. docs/laboratory.md describes "
           "the ledger and what a proposer reads and writes."},
          {"fovea kernel evolve attention --level wmma --budget 20m --ledger wmma.jsonl",
           "fovea kernel evolve gemm_out --ledger out.jsonl --proposer python3 mine.py"});

  CLI::App* resources = add("resources",
                            "Compare registers, shared and local memory of the compiled kernels "
                            "with the limits of their cards",
                            run_resources);
  explain(*resources, {}, {"fovea kernel resources"});
  CLI::App* sass =
      add("sass", "Compare the instructions of the compiled kernels with what their cards demand",
          run_sass);
  add_text(*sass, "--kernel", "KERNEL", arguments->kernel, "Only this kernel of the cards")
      ->group(kInputGroup);
  add_whole(*sass, "--arch", {50, 999}, arguments->arch, "Only machine code for this architecture")
      ->group(kInputGroup);
  add_sources(*sass, *arguments);
  add_flag(*sass, "--regions", arguments->regions,
           "Also count instructions by region of the sources, of what ptxas makes of the program's "
           "PTX with its lines")
      ->group(kReportGroup);
  add_flag(*sass, "--dump", arguments->dump, "Also print the machine code")->group(kReportGroup);
  names_output(*sass,
               add_text(*sass, "--cfg", "FILE", arguments->cfg,
                        "Write one kernel's control flow, by role, for graphviz's dot")
                   ->group(kReportGroup),
               OutputKind::kGraph);
  names_output(*sass,
               add_text(*sass, "--cubin", "FILE", arguments->cubin,
                        "Write the machine code of one kernel's unit")
                   ->group(kReportGroup),
               OutputKind::kMachineCode);
  explain(*sass,
          {"The roles of a kernel whose warps are specialised must be disjoint: no path leads from "
           "one to another, and only barriers join them."},
          {"fovea kernel sass gemm_qkv_int8", "fovea kernel sass gemm_out_bf16 --regions"});

  CLI::App* sanitize =
      add("sanitize", "Run compute-sanitizer's tools on the cards' small cases", run_sanitize);
  add_gpu(*sanitize, *arguments);
  add_text(*sanitize, "--tool", "TOOL", arguments->sanitize.only_tool,
           "Only synccheck, racecheck, memcheck or initcheck (without it: all, in this order)")
      ->group(kInputGroup);
  add_whole(*sanitize, "--most-seconds", {1, 100000}, arguments->sanitize.most_seconds,
            "Limit of one tool on one card")
      ->group(kInputGroup);
  add_whole(*sanitize, "--jobs", {1, 256}, arguments->sanitize.jobs,
            "How many run at once (without it: as many as the machine has CPUs, at most 12)")
      ->group(kComputeGroup);
  names_output(*sanitize,
               add_text(*sanitize, "-o,--output", "FOLDER", arguments->output,
                        "A folder for the tools' words, a file each, and sanitizers.json")
                   ->group(kOutputGroup),
               OutputKind::kSanitizers);
  explain(
      *sanitize,
      {"A card that hangs under synccheck is not run under the other tools. Without cards every "
       "kernel that ships for the GPU has to be launched under each tool."},
      {"fovea kernel sanitize gemm_qkv_int8", "fovea kernel sanitize --output logs"});
}

}  // namespace fovea::cli
