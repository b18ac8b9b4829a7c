// `fovea emulate`: runs kernels of a PTX file on the CPU, and reports errors in them.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/emulate_checks.hpp"
#include "cli/emulate_findings.hpp"
#include "cli/emulate_program.hpp"
#include "cli/emulate_source.hpp"
#include "cli/lines.hpp"
#include "cli/outputs.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "fovea_emulator/device.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/emulation/launch_file.hpp"
#include "lab/emulation/launch_template.hpp"
#include "lab/emulation/limits.hpp"
#include "lab/emulation/trace_file.hpp"
#include "lab/programs/settings.hpp"
#include "lab/system/compiler.hpp"

namespace fovea::cli {
namespace {

constexpr const char* kAnyPolicy = "any";

struct EmulateArguments {
  std::string ptx;
  std::vector<std::string> compiler_flags;
  bool is_template = false;
  std::vector<std::string> program;
  std::string launch;
  std::string kernel;
  std::vector<std::int64_t> launches;
  std::string arch = "sm_90a";
  std::uint64_t seed = 0;
  std::uint64_t schedules = 1;
  std::string policy = kAnyPolicy;
  bool all = false;
  std::string trace;
  FindingOutputs findings;
  std::uint64_t most_operations = 40'000'000;  // about a minute
  std::uint64_t resident_blocks = emu::RunOptions{}.resident_blocks;
  EmulateChecks checks;
  bool any_path = false;
  bool overwrite = false;
  const CLI::App* command = nullptr;
  std::uint64_t max_memory = emulation::kMaxMemory;
  int threads = 0;
  JsonOutput json;
};

constexpr std::array kPolicies = {emu::Policy::kUniform, emu::Policy::kPriorities,
                                  emu::Policy::kEager, emu::Policy::kLazy, emu::Policy::kStarve};

emu::Policy parse_policy(const std::string& name) {
  for (const emu::Policy policy : kPolicies) {
    if (name == emu::name_of(policy)) {
      return policy;
    }
  }
  return emu::Policy::kFromSeed;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names = {kAnyPolicy};
  for (const emu::Policy policy : kPolicies) {
    names.emplace_back(emu::name_of(policy));
  }
  return names;
}

/// Lists the kernels and their parameters; used without --launch. Each has a name by which --kernel
/// finds it.
int list_kernels(const EmulateArguments& arguments, const KernelSource& source) {
  const emulation::Module module(source.ptx(), arguments.max_memory, source.name());
  std::map<std::string, int> counts;  // kernels by name
  for (const emu::KernelHandle& kernel : module.kernels()) {
    ++counts[emulation::source_name(kernel.name)];
  }
  auto json = nlohmann::ordered_json::array();
  for (const emu::KernelHandle& kernel : module.kernels()) {
    const std::string name = emulation::source_name(kernel.name);
    auto parameters = nlohmann::ordered_json::array();
    constexpr std::size_t kMaxCharacters = 2 * io::kMaxMessageCharacters;  // more than any has
    std::string text = io::printable(counts[name] == 1 ? name : kernel.name, kMaxCharacters) + '\n';
    for (const emu::Parameter& parameter : kernel.parameters) {
      parameters.push_back(
          {{"name", parameter.name}, {"offset", parameter.offset}, {"bytes", parameter.bytes}});
      text += fmt::format("  {}: {} bytes at {}\n",
                          io::printable(parameter.name, io::kMaxNameCharacters), parameter.bytes,
                          parameter.offset);
    }
    json.push_back({{"name", kernel.name}, {"source_name", name}, {"parameters", parameters}});
    if (arguments.json.prints_text()) {
      std::cout << text;
    }
  }
  arguments.json.write({{"kernels", std::move(json)}}, "emulate.kernels");
  return kDone;
}

/// Prints a launch file for the kernel.
int write_template(const EmulateArguments& arguments, const KernelSource& source) {
  const emulation::Module module(source.ptx(), arguments.max_memory, source.name());
  std::cout << emulation::template_of(module, module.find(arguments.kernel)).dump(2) << '\n';
  return kDone;
}

// Returns the options that run only this schedule.
std::string replay_options(const EmulateArguments& arguments, std::uint64_t seed) {
  return fmt::format("--seed {}{}", seed,
                     arguments.policy == kAnyPolicy ? "" : " --policy " + arguments.policy);
}

emulation::PtxOrigin origin_of(const EmulateArguments& arguments) {
  return {.file = arguments.ptx, .is_kept = !is_cuda_source(arguments.ptx)};
}

void print_outcome(const EmulateArguments& arguments, const emulation::Outcome& outcome) {
  // The report of a deadlock names every waiting warp.
  constexpr std::size_t kMaxReportBytes = 4000;
  for (const std::string& line : arguments.findings.lines(outcome, origin_of(arguments))) {
    std::cout << io::printable(line, kMaxReportBytes) << '\n';
  }
  std::cout << fmt::format("  schedule: {} ({})\n", replay_options(arguments, outcome.seed),
                           emu::name_of(outcome.report.policy));
}

/// Prints what the kernels of the shown schedule have printed, without control characters other
/// than ends of lines and tabulators.
void print_text_of_kernels(std::string_view text) {
  std::cout << printable_lines(text, "\n\t");
  if (!text.empty() && text.back() != '\n') {
    std::cout << '\n';
  }
}

emu::RunOptions run_options(const EmulateArguments& arguments) {
  emu::RunOptions run{.policy = parse_policy(arguments.policy),
                      .resident_blocks = static_cast<std::uint32_t>(arguments.resident_blocks),
                      .max_steps = arguments.most_operations};
  arguments.checks.apply(run);
  return run;
}

int emulate(const EmulateArguments& arguments, const KernelSource& source, int threads) {
  emulation::LaunchFile launch =
      emulation::read_launch_file(arguments.launch, {.any_path = arguments.any_path,
                                                     .max_memory = arguments.max_memory,
                                                     .ptx = arguments.ptx,
                                                     .overwrite = arguments.overwrite});
  for (const emulation::Buffer& buffer : launch.buffers) {
    if (!buffer.write.empty()) {
      check_array_output(*arguments.command,
                         std::filesystem::path(arguments.launch).parent_path() / buffer.write);
    }
  }
  const emulation::Emulation emulation(source.ptx(), std::move(launch), arguments.kernel,
                                       source.name());
  emulation::ScheduleOptions options{.first_seed = arguments.seed,
                                     .count = arguments.schedules,
                                     .all = arguments.all,
                                     .threads = threads,
                                     .run = run_options(arguments)};
  std::optional<emulation::TraceFile> trace;
  if (!arguments.trace.empty()) {
    trace.emplace(arguments.trace);
    options.run.trace = trace->recorder();
  }
  const auto start = std::chrono::steady_clock::now();
  const emulation::ScheduleReport report = emulation.run(options);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (trace) {
    for (const emu::Finding& finding : report.shown.report.findings) {
      trace->add("# " + finding.text());
    }
    trace->commit();
  }
  emulation.write(report.shown);
  if (arguments.json.prints_text()) {
    print_text_of_kernels(report.shown.report.printed);
  }
  arguments.findings.write(report.failed, origin_of(arguments));

  auto findings = nlohmann::ordered_json::array();
  for (const emulation::Outcome& outcome : report.failed) {
    findings.push_back(emulation::to_json(outcome));
    findings.back()["replay"] = replay_options(arguments, outcome.seed);
    if (arguments.json.prints_text()) {
      print_outcome(arguments, outcome);
    }
  }
  if (arguments.json.prints_text()) {
    std::cout << fmt::format("{} of {} schedule{} clean: {} operations in {:.2f} s\n", report.clean,
                             report.run, report.run == 1 ? "" : "s", report.steps, seconds);
  }
  if (report.run == arguments.schedules) {  // others might have left out something
    arguments.checks.say_unused(report.ignored_by);
  }
  arguments.json.write({{"clean", report.failed.empty()},
                        {"first_seed", arguments.seed},
                        {"schedules", arguments.schedules},
                        {"schedules_run", report.run},
                        {"schedules_clean", report.clean},
                        {"operations", report.steps},
                        {"seconds", seconds},
                        {"printed", report.shown.report.printed},
                        {"ignored", report.ignored_by},
                        {"found", std::move(findings)}});
  return report.failed.empty() ? kDone : kFailed;
}

// Limits the memory of this process. MemoryBudget counts the memory that is requested in advance;
// this limit stops allocations that grow while a kernel runs.
void limit_memory(const EmulateArguments& arguments, int threads) {
  constexpr std::uint64_t kStackBytes = std::uint64_t{8} << 20U;  // per thread
  constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 60U;
  std::uint64_t pages = 0;  // pages of data in use: the sixth number of /proc/self/statm
  std::ifstream statm("/proc/self/statm");
  for (int i = 0; i < 6; ++i) {
    statm >> pages;
  }
  rlimit limit{};
  if (statm && getrlimit(RLIMIT_DATA, &limit) == 0) {
    const rlim_t limit_bytes = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) +
                               std::min(arguments.max_memory, kUnlimited) +
                               static_cast<std::uint64_t>(threads) * kStackBytes;
    limit.rlim_cur = std::min({limit.rlim_cur, limit.rlim_max, limit_bytes});
    static_cast<void>(setrlimit(RLIMIT_DATA, &limit));
  }
}

int run_emulate(const EmulateArguments& arguments) {
  const int threads = arguments.threads == 0 ? available_threads() : arguments.threads;
  try {
    if (!arguments.program.empty()) {
      programs::Settings settings{.schedules = arguments.schedules,
                                  .kernel = arguments.kernel,
                                  .launches = arguments.launches,
                                  .arch = arguments.arch == "sm_100a" ? 100 : 90,
                                  .max_memory = arguments.max_memory,
                                  .threads = threads,
                                  .all = arguments.all,
                                  .is_gnu = arguments.findings.is_gnu(),
                                  .program = arguments.program.front(),
                                  .run = run_options(arguments)};
      settings.run.seed = arguments.seed;
      return emulate_program({.words = arguments.program,
                              .settings = std::move(settings),
                              .checks = arguments.checks,
                              .outputs = arguments.findings,
                              .json = arguments.json});
    }
    const KernelSource source(arguments.ptx, arguments.compiler_flags);
    limit_memory(arguments, threads);
    if (arguments.is_template) {
      return write_template(arguments, source);
    }
    return arguments.launch.empty() ? list_kernels(arguments, source)
                                    : emulate(arguments, source, threads);
  } catch (const std::bad_alloc&) {
    say_error(fmt::format("{}: needs more than {} MiB of memory; --most-memory raises the limit",
                          arguments.ptx, arguments.max_memory >> 20U),
              "");
  } catch (const lab::CompileError& error) {
    say_error_lines(fmt::format("{}: nvcc does not compile it\n{}", printable_name(arguments.ptx),
                                error.what()));
  } catch (const Error& error) {
    say_error(error.what(), "");
  }
  return kUsage;  // kFailed means that a kernel is wrong
}

void add_options(CLI::App& command, EmulateArguments& arguments) {
  add_text(command, "FILE", "FILE", arguments.ptx,
           "Kernels in PTX, as nvcc -ptx makes them, or a .cu that nvcc compiles now");
  add_texts(command, "PROGRAM", arguments.program,
            "Instead of FILE, and after --: a program and its arguments, run with the emulator in "
            "the place of the GPU");
  add_text(command, "--launch", "FILE", arguments.launch,
           "Launch file, in JSON (default: list the kernels and their parameters)");
  add_flag(command, "--template", arguments.is_template,
           "Print a launch file for the kernel, with the parameters and sizes that the PTX has");
  add_repeated(command, "--nvcc-flag", "FLAG", arguments.compiler_flags,
               "Flag for nvcc, which compiles a source whose name ends in .cu: --nvcc-flag=-DN=3");
  add_text(
      command, "--kernel", "KERNEL", arguments.kernel,
      "Kernel for launches that name none, by its name in C++ or in the PTX; of a program, the "
      "kernel that runs in --schedules");
  CLI::Option* const schedules =
      add_integer(command, "--schedules", {1, 1'000'000'000}, arguments.schedules,
                  "Number of schedules to run in parallel, with consecutive seeds from --seed on");
  add_integer(command, "--seed", {0, IntegerRange::kNoLimit}, arguments.seed,
              "The same seed runs the same schedule");
  add_choice(command, "--policy", policy_names(), arguments.policy,
             "Scheduling policy; any lets the seed choose one of the others");
  add_flag(command, "--all", arguments.all, "Run all schedules, even after one with findings");
  add_flag(command, "--any-path", arguments.any_path,
           "Allow the launch file to name files outside its folder, and to read through links");
  add_integers(command, "--launch-number", {1}, arguments.launches,
               "Launches of a program, counted from 1, that run in --schedules; others run once");
  begin_group(command, kComputeGroup);
  add_choice(command, "--target", {"sm_90a", "sm_100a"}, arguments.arch,
             "GPU that a program finds");
  add_integer(
      command, "--resident-blocks", {1, 1 << 20}, arguments.resident_blocks,
      "Blocks of a grid that run at the same time; the blocks of a cluster always run together");
  add_integer(command, "--most-operations", {0}, arguments.most_operations,
              "End a schedule with a finding after this many warp operations (0: never)");
  add_emulate_checks(command, arguments.checks);
  add_size(command, "--most-memory", arguments.max_memory,
           "Memory limit for kernels and launch files");
  add_threads(command, arguments.threads);
  add_trace(command, arguments.trace)->excludes(schedules);
  arguments.findings.add_to(command);
  arguments.json.add_to(command);
}

}  // namespace

void add_emulate(CLI::App& app, Run& run) {
  const auto arguments = std::make_shared<EmulateArguments>();
  CLI::App* const command =
      app.add_subcommand("emulate", "Run CUDA kernels on the CPU and report errors in them");
  add_options(*command, *arguments);
  explain(
      *command,
      {"docs/emulator.md describes the launch file and the model of the GPU.",
       "Exit codes: 0 no findings, 1 findings, 2 the kernels cannot be run; with a program and no "
       "findings, the program's own."},
      {"fovea emulate -- ./program --its-option", "fovea emulate saxpy.ptx",
       "fovea emulate saxpy.ptx --template", "fovea emulate saxpy.ptx --launch launch.json",
       "fovea emulate saxpy.ptx --launch launch.json --schedules 100 --json",
       "fovea emulate saxpy.ptx --launch launch.json --seed 7 --trace trace.txt"});
  command->callback([arguments, command, &run] {
    if (!arguments->program.empty()) {
      throw CLI::ValidationError("a program and its arguments must be written after --");
    }
    arguments->checks.parse();
    arguments->program = words_after_dashes();
    if (arguments->program.empty() == arguments->ptx.empty()) {
      throw CLI::ValidationError("expected either FILE, or -- and a program");
    }
    if (!arguments->program.empty()) {
      reject_if_typed(*command, {"--launch", "--trace", "--any-path", "--template", "--nvcc-flag"},
                      "has no effect with a program");
    } else {
      reject_if_typed(*command, {"--launch-number", "--target"}, "has no effect without a program");
      if (!is_cuda_source(arguments->ptx)) {
        reject_if_typed(*command, {"--nvcc-flag"}, "has no effect without a .cu");
      }
      if (arguments->is_template) {
        reject_if_typed(*command, {"--launch"}, "has no effect with --template");
      }
      if (arguments->launch.empty()) {
        reject_if_typed(*command, {"--schedules", "--trace", "--sarif"},
                        "has no effect without --launch");
      }
    }
    arguments->overwrite = has_overwrite_flag(*command);
    arguments->command = command;
    run = [arguments] { return run_emulate(*arguments); };
  });
}

}  // namespace fovea::cli
