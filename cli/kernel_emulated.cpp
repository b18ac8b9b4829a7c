// `fovea kernel check` on the emulator; `emulate`, which runs one schedule of it again; and
// `capture`, which keeps what a GPU computes of the same cases.
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "core/device_name.hpp"
#include "fovea/error.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "lab/cards/card.hpp"
#include "lab/emulated/captured_cases.hpp"
#include "lab/emulated/check_emulated.hpp"
#include "lab/emulated/replay_case.hpp"
#include "lab/emulation/report.hpp"
#include "lab/emulation/trace_file.hpp"

namespace fovea::cli {
namespace {

int arch_of(const std::string& emulator) {
  constexpr int kUsual = 90;
  return emulator.empty() ? kUsual : parse_device(emulator).value_or(DeviceName{}).number;
}

/// A line for each card; whether the emulator computes what the GPU did, as far as there is
/// something to compare.
bool print_figures(const lab::CaseComparer& comparer, bool is_text, nlohmann::ordered_json& json) {
  int compared = 0;
  int differing = 0;
  json = {{"device", comparer.captured().device},
          {"driver", comparer.captured().driver},
          {"commit", comparer.captured().commit},
          {"cards", nlohmann::ordered_json::array()}};
  for (const auto& [card, figures] : comparer.figures()) {
    compared += figures.compared;
    differing += figures.differing;
    json["cards"].push_back({{"card", card},
                             {"compared", figures.compared},
                             {"differing", figures.differing},
                             {"changed", figures.changed},
                             {"missing", figures.missing},
                             {"approximate", figures.approximate},
                             {"numbers", figures.distance.numbers},
                             {"differing_numbers", figures.distance.differing},
                             {"ulps", figures.distance.ulps}});
    if (is_text) {
      std::cout << fmt::format("{}: {} compared, {} differ", card, figures.compared,
                               figures.differing);
      if (figures.approximate > 0) {
        std::cout << fmt::format(
            "; of {} numbers of approximate outputs {} are not the same, at "
            "most {} ulps apart",
            figures.distance.numbers, figures.distance.differing, figures.distance.ulps);
      }
      if (figures.changed > 0) {
        std::cout << fmt::format("; the kernel of {} that differ has changed since",
                                 figures.changed);
      }
      if (figures.missing > 0) {
        std::cout << fmt::format("; {} are not in the file as they are now", figures.missing);
      }
      std::cout << '\n';
    }
  }
  if (is_text) {
    std::cout << fmt::format("{}, commit {}: {} compared, {} differ\n",
                             io::printable(comparer.captured().device),
                             io::printable(comparer.captured().commit), compared, differing);
  }
  if (compared == 0) {
    throw Error("nothing was compared with the captures: they are of other cases");
  }
  return differing == 0;
}

}  // namespace

int run_check_emulated(const KernelArguments& arguments,
                       const std::vector<const lab::Card*>& cards) {
  const int arch = arch_of(arguments.emulator);
  const gpu::DeviceInfo info = gpu::open_emulated_device({.arch = arch})->info();
  lab::EmulatedCheckOptions options{.arch = arch,
                                    .seed = arguments.check.seed,
                                    .schedules = arguments.schedules,
                                    .only_case = arguments.check.only_case};
  std::unique_ptr<lab::CaseComparer> comparer;
  if (!arguments.captures.empty()) {
    comparer = std::make_unique<lab::CaseComparer>(arguments.captures, arch);
    options.inspect = [&](const lab::EmulatedJob& job, const lab::Ran& ran) {
      return comparer->inspect(job, ran);
    };
  }
  say(info.name);
  std::vector<lab::CheckResult> results;
  const int failed = lab::check_emulated(cards, options, [&](const lab::CheckResult& result) {
    if (arguments.json.leaves_text()) {
      print_check(result);
    }
    results.push_back(result);
  });
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{}/{} passed\n", results.size() - static_cast<std::size_t>(failed),
                             results.size());
  }
  auto json = nlohmann::ordered_json::parse(lab::to_json(info, results));
  if (comparer) {
    print_figures(*comparer, arguments.json.leaves_text(), json["captures"]);
  }
  arguments.json.write(json);
  return failed == 0 ? kDone : kFailed;
}

int run_capture(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  require_case(cards, arguments.check.only_case);
  const std::unique_ptr<gpu::Device> gpu =
      arguments.emulator.empty() ? open_gpu(arguments, lab::open_as_emulated) : nullptr;
  const int arch = gpu ? gpu->info().arch() : arch_of(arguments.emulator);
  const gpu::DeviceInfo info =
      gpu ? gpu->info() : gpu::open_emulated_device({.arch = arch})->info();
  say(info.name);
  lab::CaseRecorder recorder(info, static_cast<std::size_t>(arguments.words));
  std::size_t run = 0;
  const int failed = lab::check_emulated(
      cards,
      {.arch = arch,
       .seed = arguments.check.seed,
       .schedules = arguments.schedules,
       .only_case = arguments.check.only_case,
       .inspect = [&](const lab::EmulatedJob& job,
                      const lab::Ran& ran) { return recorder.inspect(job, ran); },
       .gpu = gpu.get()},
      [&](const lab::CheckResult& result) {
        ++run;
        if (!result.passed && arguments.json.leaves_text()) {
          print_check(result);
        }
      });
  const std::size_t bytes = captures::write_results(arguments.output, recorder.results());
  const std::size_t kept = recorder.results().kernels.size();
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{} of {} passed, the outputs of {} are in {}: {} bytes\n",
                             run - static_cast<std::size_t>(failed), run, kept, arguments.output,
                             bytes);
  }
  arguments.json.write(
      {{"device", info.name}, {"run", run}, {"failed", failed}, {"kept", kept}, {"bytes", bytes}});
  return failed == 0 ? kDone : kFailed;
}

int run_kernel_emulate(const KernelArguments& arguments) {
  const std::vector<const lab::Card*> cards = lab::find_cards(arguments.names);
  if (arguments.names.size() != 1) {
    throw Error("name one card, whose case is to run; `fovea kernel list` names them");
  }
  require_case(cards, arguments.check.only_case);
  lab::ReplayOptions options{.arch = arch_of(arguments.emulator),
                             .case_name = arguments.check.only_case,
                             .plan = arguments.plan,
                             .seed = arguments.check.seed,
                             .schedule = arguments.schedule,
                             .overlapping = arguments.overlapping};
  std::optional<emulation::TraceFile> trace;
  if (!arguments.trace.empty()) {
    trace.emplace(arguments.trace);
    options.trace = trace->recorder();
  }
  const lab::Replay replay = lab::replay_case(*cards.front(), options);
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
  if (arguments.json.leaves_text()) {
    print_check(result);
  }
  arguments.json.write({{"clean", result.passed},
                        {"card", result.card},
                        {"case", result.case_name},
                        {"plan", result.what},
                        {"seed", result.seed},
                        {"schedule", arguments.schedule},
                        {"overlapping", arguments.overlapping},
                        {"reason", result.reason},
                        {"max_abs", result.verdict.worst},
                        {"max_rel", result.verdict.worst_relative},
                        {"findings", std::move(findings)}});
  return result.passed ? kDone : kFailed;
}

}  // namespace fovea::cli
