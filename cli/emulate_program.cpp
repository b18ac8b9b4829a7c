// `fovea emulate -- PROGRAM`: runs a whole program with the emulator in the place of the GPU.
#include "cli/emulate_program.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "lab/programs/run_program.hpp"

namespace fovea::cli {
namespace {

std::string count_text(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void print_summary(const programs::ProgramResult& result) {
  const programs::JournalSummary& summary = result.summary;
  if (summary.launches == 0 && summary.refusals.empty()) {
    say(summary.notes.empty()
            ? "the program has launched no kernel by the shared CUDA runtime or driver; one that "
              "contains the static runtime is built with nvcc -cudart shared"
            : "the program has launched no kernel");
    return;
  }
  std::uint64_t affected = 0;  // launches, counted for each finding
  for (const nlohmann::ordered_json& finding : summary.findings) {
    affected += finding.value("launches", std::uint64_t{0});
  }
  say(fmt::format("{} of {} ran in {}: {} operations in {:.2f} s",
                  summary.launches == 1 ? "1 launch" : fmt::format("{} launches", summary.launches),
                  count_text(summary.kernels.size(), "kernel"),
                  count_text(summary.schedules, "schedule"), summary.operations, summary.seconds));
  if (summary.findings.empty() && summary.refusals.empty()) {
    say("no findings");
  }
  if (!summary.findings.empty()) {
    say(fmt::format("{}, in {}", count_text(summary.findings.size(), "finding"),
                    affected == 1 ? "1 launch" : fmt::format("{} launches", affected)));
  }
  if (!summary.refusals.empty()) {
    say(fmt::format("not everything could be run: {}, as said above",
                    count_text(summary.refusals.size(), "refusal")));
  }
}

}  // namespace

int emulate_program(const std::vector<std::string>& program, const programs::Settings& settings,
                    const JsonOutput& json) {
  const programs::ProgramResult result = programs::run_program(program, settings);
  const programs::JournalSummary& summary = result.summary;
  print_summary(result);
  json.write({{"clean", summary.findings.empty()},
              {"exit_code", result.exit_code},
              {"launches", summary.launches},
              {"schedules_run", summary.schedules},
              {"operations", summary.operations},
              {"seconds", summary.seconds},
              {"kernels", summary.kernels},
              {"found", summary.findings},
              {"refused", summary.refusals},
              {"notes", summary.notes}},
             "emulate.program");
  if (!summary.findings.empty()) {
    return kFailed;
  }
  return result.exit_code == 0 && !summary.refusals.empty() ? int{kUsage} : result.exit_code;
}

}  // namespace fovea::cli
