// `fovea kernel export` and `fovea kernel judge`: tasks for others, and their kernels through our
// gate, which is the Python package's (fovea.lab.judge).
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "io/atomic_file.hpp"
#include "lab/cards/card.hpp"
#include "lab/cards/torch_task.hpp"
#include "lab/system/process.hpp"

namespace fovea::cli {
namespace {

/// Python runs it in isolated mode, so that no module in the working folder takes the place of one
/// that the judge imports; the user's packages and the folders of PYTHONPATH are added behind
/// Python's own. An answer that is wrong ends with 1: what keeps the judge from working must not.
/// Any Python can read this, even one that cannot read the package.
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

std::string python() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets variables
  const char* const named = std::getenv("FOVEA_PYTHON");
  std::string found = named != nullptr ? named : lab::find_program("python3");
  if (found.empty()) {
    throw Error(
        "there is no python3 on the PATH, which `fovea kernel judge` needs with torch; "
        "set FOVEA_PYTHON");
  }
  return found;
}

/// Becomes the judge. Throws fovea::Error when it cannot.
[[noreturn]] void become_judge(const KernelArguments& arguments) {
  const JudgeArguments& judge = arguments.judge;
  std::vector<std::string> words = {python(),
                                    "-I",
                                    "-c",
                                    kProgram,
                                    judge.task,
                                    judge.answer,
                                    "--device=" + judge.device,
                                    fmt::format("--seeds={}", judge.seeds),
                                    fmt::format("--seed={}", arguments.check.seed),
                                    fmt::format("--time-limit={}", judge.time_limit)};
  if (!judge.time) {
    words.emplace_back("--no-time");
  }
  if (!judge.compile) {
    words.emplace_back("--no-compile");
  }
  if (arguments.json.is_wanted()) {
    words.push_back("--json=" + (arguments.json.to_stdout() ? "-" : arguments.json.file()));
    words.emplace_back("--overwrite");  // what it may replace was judged here, before it began
  }
  std::vector<char*> raw;
  std::ranges::transform(words, std::back_inserter(raw),
                         [](std::string& word) { return word.data(); });
  raw.push_back(nullptr);
  execvp(raw.front(), raw.data());
  throw Error(fmt::format("{} cannot be run: {}; set FOVEA_PYTHON to a Python with torch",
                          words.front(), std::strerror(errno)));
}

}  // namespace

int run_export(const KernelArguments& arguments) {
  const std::vector<const lab::Card*> cards = lab::find_cards(arguments.names);
  if (arguments.names.size() != 1) {
    throw Error("this command takes one card; `fovea kernel list` names them");
  }
  const lab::Card& card = *cards.front();
  const lab::Case one = lab::find_case(card, arguments.check.only_case);
  const std::string task = lab::to_kernelbench(card, one);
  io::write_file_atomically(arguments.judge.output, task);
  arguments.json.write(
      {{"card", card.name}, {"case", one.name}, {"file", arguments.judge.output}, {"task", task}});
  return kDone;
}

int run_judge(const KernelArguments& arguments) {
  try {
    become_judge(arguments);
  } catch (const Error& error) {
    say_error(error.what(), "");
    return kUsage;  // kFailed is for answers that are wrong
  }
}

}  // namespace fovea::cli
