// `fovea emulate -- PROGRAM`: runs a whole program with the emulator in the place of the GPU.
#include "cli/emulate_program.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/emulation/findings_order.hpp"
#include "lab/programs/run_program.hpp"

namespace fovea::cli {
namespace {

std::string count_text(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string launches_text(std::uint64_t count) {
  return count == 1 ? "1 launch" : fmt::format("{} launches", count);
}

// Returns what the options choose that the program has not launched; "" if it has all.
std::string missing_launches(const programs::Settings& settings,
                             const programs::JournalSummary& summary) {
  std::vector<std::int64_t> numbers = settings.launches;
  if (summary.chosen_launches != 0) {
    std::erase_if(numbers, [&](std::int64_t number) {
      return static_cast<std::uint64_t>(number) <= summary.launches;
    });
    return numbers.empty() ? ""
                           : fmt::format("no launch {}: the program has made {}",
                                         fmt::join(numbers, ", "), launches_text(summary.launches));
  }
  if (numbers.empty() && settings.kernel.empty()) {
    return "";
  }
  const std::string number = numbers.empty() ? "" : fmt::format(" {}", fmt::join(numbers, ", "));
  const std::string kernel =
      settings.kernel.empty() ? "" : fmt::format(" of a kernel {}", settings.kernel);
  return fmt::format("no launch{}{}; launched: {}", number, kernel,
                     summary.kernels.empty() ? "nothing"
                     : settings.kernel.empty()
                         ? launches_text(summary.launches)
                         : emulation::list_names({summary.kernels.begin(), summary.kernels.end()}));
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
  say(fmt::format("{} of {} ran in {}: {} operations in {:.2f} s", launches_text(summary.launches),
                  count_text(summary.kernels.size(), "kernel"),
                  count_text(summary.schedules, "schedule"), summary.operations, summary.seconds));
  if (summary.findings.empty() && summary.refusals.empty()) {
    say("no findings");
  }
  if (!summary.findings.empty()) {
    std::set<std::string> lines;  // as they were told
    for (const programs::JournalSummary::Accusation& accusation : summary.findings) {
      lines.insert(emulation::line_key(accusation.finding));
    }
    say(fmt::format("{}, in {}", count_text(lines.size(), "finding"),
                    launches_text(summary.accused_launches)));
  }
  if (!summary.refusals.empty()) {
    say(fmt::format("not everything could be run: {}, as said above",
                    count_text(summary.refusals.size(), "refusal")));
  }
}

// Returns each finding in an outcome of its own, with the seed that has it.
std::vector<emulation::Outcome> outcomes_of(const programs::JournalSummary& summary) {
  std::vector<emulation::Outcome> outcomes;
  outcomes.reserve(summary.findings.size());
  for (const programs::JournalSummary::Accusation& accusation : summary.findings) {
    outcomes.push_back({.seed = accusation.seed, .report = {.findings = {accusation.finding}}});
  }
  return outcomes;
}

}  // namespace

int emulate_program(const EmulatedProgram& program) {
  const programs::ProgramResult result = programs::run_program(program.words, program.settings);
  const programs::JournalSummary& summary = result.summary;
  print_summary(result);
  const std::string missing = missing_launches(program.settings, summary);
  if (!missing.empty()) {
    say(missing);
  }
  if (program.settings.all || program.settings.schedules == 1 || summary.findings.empty()) {
    program.checks.say_unused(summary.ignored_by);  // all schedules have run
  }
  program.outputs.write(outcomes_of(summary), {.file = program.words.front(), .is_kept = false});
  auto findings = nlohmann::ordered_json::array();
  for (const programs::JournalSummary::Accusation& accusation : summary.findings) {
    findings.push_back(programs::to_json(accusation));
  }
  program.json.write({{"clean", summary.findings.empty()},
                      {"exit_code", result.exit_code},
                      {"launches", summary.launches},
                      {"schedules_run", summary.schedules},
                      {"operations", summary.operations},
                      {"seconds", summary.seconds},
                      {"kernels", summary.kernels},
                      {"ignored", summary.ignored_by},
                      {"found", std::move(findings)},
                      {"refused", summary.refusals},
                      {"notes", summary.notes}},
                     "emulate.program");
  if (!summary.findings.empty()) {
    return kFailed;
  }
  const bool is_complete = summary.refusals.empty() && missing.empty();
  return result.exit_code == 0 && !is_complete ? int{kUsage} : result.exit_code;
}

}  // namespace fovea::cli
