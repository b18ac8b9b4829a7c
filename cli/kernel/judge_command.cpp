// `fovea kernel judge`: judges a third-party kernel by running fovea.lab.judge from the Python
// package.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "lab/system/process.hpp"

namespace fovea::cli::kernel {
namespace {

struct JudgeOptions {
  std::string task;
  std::string answer;
  JsonOutput json;
  std::string device = "cuda";
  int seeds = 5;
  std::uint64_t seed = 1;
  int time_limit = 600;  // seconds
  bool time = true;
  bool compile = true;
};

/// The Python program that starts the judge. Python runs in isolated mode, so that no module in the
/// working folder shadows one that the judge imports; the user's packages and PYTHONPATH are added
/// after Python's standard library. Exit code 1 means a wrong answer, so other failures must use
/// another code. The syntax is valid in every Python version, including those too old for the
/// package.
constexpr const char* kProgram = R"(import os, site, sys
if sys.prefix == sys.base_prefix:
    site.addsitedir(site.getusersitepackages())
packages = [place for place, path in enumerate(sys.path) if path.endswith("-packages")] + [len(sys.path)]
sys.path[packages[0]:packages[0]] = filter(os.path.isabs, os.environ.get("PYTHONPATH", "").split(os.pathsep))
try:
    from fovea.lab.judge import main
except Exception as error:
    sys.stderr.write("fovea: %s cannot judge: %s: %s; install Fovea's wheel and torch there, or set FOVEA_PYTHON to "
                     "a Python that has them\n" % (sys.executable, type(error).__name__, str(error).split("\n")[0]))
    sys.exit(2)
sys.exit(main()))";

std::string python_interpreter() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets variables
  const char* const variable = std::getenv("FOVEA_PYTHON");
  std::string interpreter = variable != nullptr ? variable : lab::find_program("python3");
  if (interpreter.empty()) {
    throw Error(
        "`fovea kernel judge` needs a python3 with torch, and none is on the PATH; set "
        "FOVEA_PYTHON");
  }
  return interpreter;
}

/// Replaces this process by the judge. Throws fovea::Error when it cannot be started.
[[noreturn]] void exec_judge(const JudgeOptions& options) {
  std::vector<std::string> arguments = {python_interpreter(),
                                        "-I",
                                        "-c",
                                        kProgram,
                                        options.task,
                                        options.answer,
                                        "--device=" + options.device,
                                        fmt::format("--seeds={}", options.seeds),
                                        fmt::format("--seed={}", options.seed),
                                        fmt::format("--time-limit={}", options.time_limit)};
  if (!options.time) {
    arguments.emplace_back("--no-time");
  }
  if (!options.compile) {
    arguments.emplace_back("--no-compile");
  }
  if (options.json.is_requested()) {
    arguments.push_back("--json=" + (options.json.to_stdout() ? "-" : options.json.file()));
    // This program has already checked that the file may be replaced.
    arguments.emplace_back("--overwrite");
  }
  std::vector<char*> argument_pointers;
  std::ranges::transform(arguments, std::back_inserter(argument_pointers),
                         [](std::string& word) { return word.data(); });
  argument_pointers.push_back(nullptr);
  execvp(argument_pointers.front(), argument_pointers.data());
  throw Error(fmt::format("{} cannot be run: {}; set FOVEA_PYTHON to a Python with torch",
                          arguments.front(), std::strerror(errno)));
}

int run_judge(const JudgeOptions& options) {
  try {
    exec_judge(options);
  } catch (const Error& error) {
    say_error(error.what(), "");
    return kUsage;  // kFailed means that an answer is wrong
  }
}

}  // namespace

void add_judge(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_command(
      kernel, run, "judge", "Judge a third-party kernel: right or wrong, and how fast", run_judge);
  add_text(command, "TASK", "TASK", options.task, "Task in KernelBench's format, a Python file")
      ->required();
  add_text(command, "ANSWER", "ANSWER", options.answer, "Python file with the class ModelNew")
      ->required();
  options.json.add_to(command);
  add_integer(command, "--seeds", {1, 1000}, options.seeds,
              "Number of consecutive seeds for random inputs, from --seed on");
  add_seed(command, options.seed);
  begin_group(command, kComputeGroup);
  add_choice(command, "--device", {"cuda", "cpu"}, options.device,
             "Device for the answer and for Model");
  add_integer(command, "--time-limit", {1, 86400}, options.time_limit,
              "Time limit for the answer, including its compilation");
  begin_group(command, kReportGroup);
  add_flag(command, "--time,!--no-time", options.time, "Time a right answer and Model");
  add_flag(command, "--compile,!--no-compile", options.compile,
           "Also time Model in torch.compile, on GPUs");
  explain(
      command,
      {"Runs the Python interpreter in FOVEA_PYTHON, or python3, which needs torch and Fovea's "
       "package. The answer runs in a separate process with your permissions, not in a sandbox.",
       "The exit code is 0 for RIGHT, 1 for WRONG, 2 when the task or the arguments cannot be "
       "used, or the judge itself fails."},
      {"fovea kernel judge task.py answer.py --device cuda"});
}

}  // namespace fovea::cli::kernel
