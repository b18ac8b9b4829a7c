// `fovea kernel emulate`: runs one schedule of a case on the emulator, as `check` does.
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "fovea/error.hpp"
#include "lab/emulated/replay_case.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/emulation/trace_file.hpp"

namespace fovea::cli::kernel {
namespace {

struct EmulateOptions : CardOptions {
  std::string emulator;
  lab::ReplayOptions replay;
  std::string trace;  // file for the trace; empty: none
};

int run_emulate(const EmulateOptions& options) {
  const auto cards = cards_with_case(options.cards, options.replay.case_name);
  if (options.cards.size() != 1) {
    throw Error("name the card whose case to run; `fovea kernel list` lists the cards");
  }
  lab::ReplayOptions replay_options = options.replay;
  replay_options.arch = emulator_arch(options.emulator);
  std::optional<emulation::TraceFile> trace;
  if (!options.trace.empty()) {
    trace.emplace(options.trace);
    replay_options.trace = trace->recorder();
  }
  const lab::Replay replay = lab::replay_case(*cards.front(), replay_options);
  auto findings = nlohmann::ordered_json::array();
  for (const emu::Finding& finding : replay.findings) {
    findings.push_back(emulation::to_json(finding));
    if (trace) {
      trace->add("# " + finding.text());
    }
  }
  if (trace) {
    trace->commit();
  }
  const lab::CheckResult& result = replay.result;
  if (options.json.prints_text()) {
    print_check(result);
  }
  options.json.write({{"clean", result.passed},
                      {"card", result.card},
                      {"case", result.case_name},
                      {"plan", result.what},
                      {"seed", result.seed},
                      {"schedule", replay_options.schedule},
                      {"overlapping", replay_options.overlapping},
                      {"reason", result.reason},
                      {"max_abs", result.verdict.worst},
                      {"max_rel", result.verdict.worst_relative},
                      {"findings", std::move(findings)}});
  return result.passed ? kDone : kFailed;
}

}  // namespace

void add_emulate(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "emulate",
      "Run one schedule of a case on the emulator, in the same way as check", run_emulate);
  add_emulator(command, options.emulator);
  add_case(command, options.replay.case_name);
  add_plan(command, options.replay.plan);
  add_seed(command, options.replay.seed);
  add_integer(command, "--schedule", {0, 999'999'999}, options.replay.schedule,
              "Index of the schedule in `fovea kernel check --device emu`, from 0");
  add_flag(command, "--overlapping", options.replay.overlapping,
           "Run it after a grid that still writes its input, then after itself, because grids "
           "overlap on GPUs; outputs are not checked");
  add_trace(command, options.trace);
  explain(command,
          {"`fovea kernel check --device emu` prints each finding with the options that reproduce "
           "it here. The default case is the first quick one of the card.",
           "Exit codes: 0 outputs are right and there are no findings, 1 otherwise."},
          {"fovea kernel emulate layer_norm --case rows3_width768 --schedule 2",
           "fovea kernel emulate gemm_out_bf16 --seed 7 --trace trace.txt"});
}

}  // namespace fovea::cli::kernel
