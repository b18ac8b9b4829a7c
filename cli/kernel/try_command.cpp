// `fovea kernel try`: tries a candidate with other tuning parameters or sources, or a batch of
// candidates, one per line.
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"
#include "io/json.hpp"
#include "lab/evolve/candidate.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::cli::kernel {
namespace {

using Json = nlohmann::ordered_json;

struct TryOptions : CardOptions {
  int gpu = 0;
  lab::CandidateSetting setting;
  std::string kernel;
  Parameters parameters;  // tuning parameters that differ from the kernel's own
  std::string sources;    // folder with the kernels' sources; empty: the program's own
  std::string unit;       // file that replaces the kernel's source file; empty: none
  bool batch = false;     // read candidates from the standard input, one per line
  int max_seconds = 0;    // time after which the program is killed; 0: never
};

lab::CandidateSpec candidate_spec(const TryOptions& options) {
  return {.kernel = options.kernel,
          .changes = options.parameters,
          .source = options.unit.empty() ? std::string() : lab::read_source(options.unit)};
}

/// Formats a reason for printing; a compiler's message may have several lines.
std::string indent_lines(const std::string& reason) {
  std::istringstream lines(reason);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += (text.empty() ? "" : "\n  ") + io::printable(line);
  }
  return text;
}

void print(const lab::CandidateResult& result) {
  std::string change;
  for (const auto& [name, value] : result.change) {
    change += fmt::format("{}{} {}", change.empty() ? " with " : ", ", name, value);
  }
  std::cout << fmt::format("{}{}\n", result.kernel, change);
  for (const std::string& path : result.sources) {
    std::cout << "  changed source: " << path << '\n';
  }
  if (!result.compiler.empty()) {
    std::cout << fmt::format("  {} in {:.1f} s: {} registers, {} bytes of shared memory\n",
                             result.compiler, result.compile_seconds, result.registers,
                             result.shared_bytes);
  }
  for (std::size_t i = 0; i < result.skipped.size(); ++i) {
    const auto& [gate, why] = result.skipped[i];
    const bool first = i == 0 || result.skipped[i - 1].second != why;
    const bool last = i + 1 == result.skipped.size() || result.skipped[i + 1].second != why;
    std::cout << (first ? "  skipped: " : ", ") << lab::to_string(gate)
              << (last ? fmt::format(": {}\n", why) : "");
  }
  if (result.worst.has_value()) {
    std::cout << fmt::format(
        "  {} outputs were checked; the largest error is {:.2e}, relative {:.2e}\n", result.checked,
        *result.worst, result.worst_relative.value_or(0.0));
  }
  if (result.timing.has_value()) {
    std::cout << fmt::format("  {}: {:.4f} ms +- {:.1f}%, baseline {} {:.4f} ms: speed-up {:.3f}\n",
                             result.verdict(), result.timing->seconds * 1e3,
                             50 * result.timing->spread / result.timing->seconds, result.baseline,
                             result.baseline_timing.value_or(lab::Timing{}).seconds * 1e3,
                             result.speed_up());
  }
  if (result.failed_at.has_value()) {
    std::cout << fmt::format("INVALID at {}: {}\n", lab::to_string(*result.failed_at),
                             indent_lines(result.reason))
              << std::flush;
  } else {
    std::cout << (result.valid.has_value() ? "valid\n"
                                           : "not judged: it has not run, and may be wrong\n")
              << std::flush;
  }
}

/// A parsed line of a batch.
struct Prepared {
  bool has_line = false;
  std::shared_ptr<lab::CandidateTrials::Prepared> candidate;  // null if the line is malformed
  std::string error_message;
};

Prepared prepare_line(const lab::CandidateTrials& trials, const TryOptions& options) {
  Prepared next;
  std::string line;
  if (!std::getline(std::cin, line)) {
    return next;
  }
  next.has_line = true;
  try {
    const auto json = io::parse_json_object(line, "a candidate");
    lab::CandidateSpec spec = candidate_spec(options);
    for (const auto& [key, value] : json.items()) {
      if (key == "kernel") {
        spec.kernel = value.get<std::string>();
      } else if (key == "parameters") {
        auto changes = parameters_in(value);
        if (!changes.has_value()) {
          throw Error("\"parameters\" must be a JSON object of whole numbers");
        }
        spec.changes = std::move(*changes);
      } else {
        throw Error(fmt::format(
            "unknown key \"{}\"; a candidate has the keys \"kernel\" and \"parameters\"", key));
      }
    }
    next.candidate = trials.prepare(spec);
  } catch (const std::exception& error) {
    next.error_message = error.what();
  }
  return next;
}

/// Prints one line of JSON for each line of the input, in order. The next candidate is compiled
/// while one runs on the GPU.
int run_batch(lab::CandidateTrials& trials, const TryOptions& options) {
  const auto prepare = [&] {
    return std::async(std::launch::async, prepare_line, std::cref(trials), std::cref(options));
  };
  for (std::future<Prepared> pending = prepare();;) {
    const Prepared next = pending.get();
    if (!next.has_line) {
      return kDone;
    }
    pending = prepare();
    std::cout << (next.candidate != nullptr ? lab::to_json(trials.finish(next.candidate))
                                            : Json{{"valid", false},
                                                   {"failed_at", "question"},
                                                   {"reason", next.error_message}}
                                                  .dump())
              << std::endl;
  }
}

int run_try(const TryOptions& options) {
  if (options.max_seconds > 0) {
    ::alarm(static_cast<unsigned>(options.max_seconds));  // in case a kernel does not terminate
  }
  lab::CandidateSetting setting = options.setting;
  setting.card = &single_card(options.cards);
  const std::unique_ptr<gpu::Device> device = try_open_gpu(options.gpu);
  lab::CandidateTrials trials(device.get(), load_kernel_sources(options.sources), setting);
  if (options.batch) {
    return run_batch(trials, options);
  }
  const lab::CandidateResult result = trials.run(candidate_spec(options));
  if (options.json.prints_text()) {
    print(result);
  }
  options.json.write(Json::parse(lab::to_json(result)));
  return !result.valid.has_value() ? kNotJudged : *result.valid ? kDone : kFailed;
}

}  // namespace

void add_try(CLI::App& kernel, Run& run) {
  const auto [command, options] =
      add_card_command(kernel, run, "try",
                       "Compile a kernel with other tuning parameters or sources, check it, and "
                       "compare its time with that of the launcher's choice",
                       run_try);
  add_level_on_gpu(command, options.gpu, options.setting.case_name, options.setting.level);
  add_seed(command, options.setting.seed);
  add_first_kernel(command, options.kernel);
  add_parameters_option(command, options.parameters);
  add_sources(command, options.sources);
  add_text(command, "--unit", "FILE", options.unit, "File that replaces the kernel's source file");
  add_flag(command, "--batch", options.batch,
           "Read one candidate per line from standard input, such as {\"parameters\": {\"stages\": "
           "3}}, and write each result as one line of JSON");
  add_integer(
      command, "--most-seconds", {0, 86400}, options.max_seconds,
      "Seconds after which the program is killed, because a kernel may never end (0: never)");
  explain(
      command,
      {"The gates run in order of cost: legal, compile, resources, races on the emulator, small "
       "cases, mutants, the case itself, time. Without a GPU those behind the races are skipped.",
       "The exit code is 0 for a valid candidate, 1 for an invalid one, and 3 for one that was "
       "not judged because it cannot run here."},
      {"fovea kernel try attention --level wmma --parameters '{\"stages\": 3}'"});
}

}  // namespace fovea::cli::kernel
