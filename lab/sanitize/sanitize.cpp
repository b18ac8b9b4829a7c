// Runs compute-sanitizer's tools in child processes, and parses their reports.
#include "lab/sanitize/sanitize.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <mutex>
#include <regex>
#include <set>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/system/machine.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Maximal number of parallel jobs, limited by GPU memory: each has a context, which is large with
/// racecheck.
constexpr int kMaxJobs = 12;
constexpr const char* kFound = "9";  // exit code of the tools if there are findings
constexpr std::size_t kMaxOutputChars = 400;

std::string find_sanitizer() {
  const std::string tool = find_program("compute-sanitizer");
  if (tool.empty()) {
    fail(
        "compute-sanitizer is neither on the PATH nor in $CUDA_HOME/bin; to get it, "
        "install the package cuda-sanitizer of your CUDA version, or the whole toolkit");
  }
  return tool;
}

std::vector<std::string_view> selected_tools(const SanitizeOptions& options) {
  if (options.only_tool.empty()) {
    return {kSanitizers.begin(), kSanitizers.end()};
  }
  if (std::ranges::find(kSanitizers, options.only_tool) == kSanitizers.end()) {
    fail_usage("`fovea kernel sanitize` has no tool '{}'; there are: {}", options.only_tool,
               fmt::join(kSanitizers, ", "));
  }
  return {options.only_tool};
}

std::string last_words(std::string words) {
  words.erase(words.find_last_not_of(" \n") + 1);
  return words.size() <= kMaxOutputChars ? words
                                         : "... " + words.substr(words.size() - kMaxOutputChars);
}

/// Parses the output of `kernel check --json` into `run`. Returns an error message if nothing was
/// checked or a check failed, else "".
std::string read_checks(const std::string& path, SanitizerRun& run) {
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("checks") || json["checks"].empty()) {
    return "nothing was checked";
  }
  std::string check_error;
  for (const Json& check : json["checks"]) {
    std::vector<std::string>& kernels = run.cases[check.value("case", "")];
    for (const Json& kernel : check.value("kernels", Json::array())) {
      const std::string name = kernel;
      if (std::ranges::find(kernels, name) == kernels.end()) {
        kernels.push_back(name);
      }
    }
    if (!check.value("passed", false) && check_error.empty()) {
      check_error =
          fmt::format("case {} is wrong: {}", check.value("case", ""), check.value("reason", ""));
    }
  }
  return check_error;
}

/// Returns the number of errors in a tool's summary, or -1 if there is no summary.
int count_errors(const std::string& words) {
  static const std::regex summary(
      R"((?:ERROR SUMMARY: (\d{1,9}) error|RACECHECK SUMMARY: (\d{1,9}) hazard))");
  int errors = -1;
  for (auto match = std::sregex_iterator(words.begin(), words.end(), summary);
       match != std::sregex_iterator(); ++match) {
    errors = std::max(errors, 0) + std::stoi((*match)[(*match)[1].matched ? 1 : 2].str());
  }
  return errors;
}

std::ptrdiff_t small_cases(const Card* card) {
  return std::ranges::count_if(card->cases, &Case::small);
}

SanitizerRun run_tool(const std::string& sanitizer, const std::string& program,
                      std::string_view tool, const Card& card, const SanitizeOptions& options) {
  SanitizerRun run;
  run.tool = tool;
  run.card = card.name;
  const TemporaryFile checks({});
  std::vector<std::string> command = {sanitizer, "--tool", std::string(tool), "--error-exitcode",
                                      kFound};
  if (tool == "memcheck") {
    command.insert(command.end(), {"--leak-check", "full"});
  }
  command.insert(command.end(),
                 {program, "kernel", "check", "--small", card.name, "--seeds", "1", "--gpu",
                  std::to_string(options.device), "--json=" + checks.path()});
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = run_process(
      command, {.max_seconds = static_cast<double>(options.max_seconds), .stop = options.stop});
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.words = fmt::format("{}\n{}{}", fmt::join(command, " "), result.output, result.errors);
  const int errors = count_errors(run.words);
  run.errors = std::max(errors, 0);
  const std::string check_error = read_checks(checks.path(), run);
  run.reason = result.timed_out ? fmt::format("time limit of {} s exceeded", options.max_seconds)
               : errors < 0
                   ? fmt::format("the tool ended with exit code {} and without a summary: {}",
                                 result.exit_code, last_words(result.output + result.errors))
               : errors > 0            ? fmt::format("{} errors", errors)
               : !check_error.empty()  ? check_error
               : result.exit_code != 0 ? fmt::format("exit code {}: {}", result.exit_code,
                                                     last_words(result.output + result.errors))
                                       : "";
  run.passed = run.reason.empty();
  return run;
}

}  // namespace

void require_sanitizer(const SanitizeOptions& options) {
  (void)selected_tools(options);
  (void)find_sanitizer();
}

std::vector<SanitizerRun> sanitize(const std::string& program, std::span<const Card* const> named,
                                   const SanitizeOptions& options,
                                   const std::function<void(const SanitizerRun&)>& report) {
  const std::vector<std::string_view> tools = selected_tools(options);
  std::vector<const Card*> cards(named.begin(), named.end());
  std::ranges::stable_sort(cards, std::ranges::greater{}, small_cases);
  const std::string sanitizer = find_sanitizer();
  const std::size_t count = cards.size();
  std::vector<SanitizerRun> runs(tools.size() * count);
  std::mutex mutex;
  ThreadPool pool(options.jobs > 0 ? options.jobs : std::min(available_threads(), kMaxJobs));
  const auto run_all = [&](std::size_t first, std::size_t last) {
    pool.parallel_for(last - first, [&](std::size_t index, int) {
      SanitizerRun& run = runs[first + index];
      const Card& card = *cards[(first + index) % count];
      if (const SanitizerRun& hangs = runs[(first + index) % count];
          first > 0 && hangs.reason.starts_with("time limit")) {
        run.tool = tools[(first + index) / count];
        run.card = card.name;
        run.reason = fmt::format("not run because {} exceeded the time limit", hangs.tool);
      } else {
        run = run_tool(sanitizer, program, tools[(first + index) / count], card, options);
      }
      const std::lock_guard lock(mutex);
      report(run);
    });
  };
  run_all(0, count);
  run_all(count, runs.size());
  return runs;
}

std::map<std::string, std::vector<std::string>> not_launched(std::span<const SanitizerRun> runs,
                                                             int arch) {
  std::map<std::string, std::set<std::string>> launched;
  for (const SanitizerRun& run : runs) {
    for (const auto& [name, kernels] : run.cases) {
      launched[run.tool].insert(kernels.begin(), kernels.end());
    }
    launched[run.tool];
  }
  std::map<std::string, std::vector<std::string>> missing;
  for (const auto& [tool, names] : launched) {
    for (const gpu::KernelInfo& info : gpu::kernels()) {
      const bool ships = !info.lab && gpu::find_kernel_image(info.name, arch) != nullptr;
      if (ships && !names.contains(std::string(info.name))) {
        missing[tool].emplace_back(info.name);
      }
    }
  }
  return missing;
}

std::string to_json(const gpu::DeviceInfo& device, std::span<const SanitizerRun> runs,
                    const std::map<std::string, std::vector<std::string>>& missing,
                    const std::string& logs) {
  const std::string words = run_process({find_sanitizer(), "--version"}).output;
  std::smatch version;
  Json tools = Json::array();
  for (const SanitizerRun& run : runs) {
    tools.push_back({{"tool", run.tool},
                     {"card", run.card},
                     {"passed", run.passed},
                     {"seconds", run.seconds},
                     {"errors", run.errors},
                     {"reason", run.reason},
                     {"log", logs.empty() ? "" : run.tool + "-" + run.card + ".log"},
                     {"cases", run.cases}});
  }
  return Json{{"kind", "sanitizers"},
              {"version", 1},
              {"machine", Json::parse(machine_json(device))},
              {"sanitizer", std::regex_search(words, version, std::regex("[Vv]ersion (\\S+)"))
                                ? version[1].str()
                                : "unknown"},
              {"tools", std::move(tools)},
              {"not_launched", missing}}
      .dump(1);
}

}  // namespace fovea::lab
