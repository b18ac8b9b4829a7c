// `fovea kernel try`: tries a candidate with other tuning parameters or sources, or many, one per
// line.
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
  std::string sources;    // the folder with the kernels' sources; empty: the program's own
  std::string unit;       // the file that replaces the kernel's own; empty: none
  bool batch = false;     // read candidates from the standard input, one per line
  int max_seconds = 0;    // the program is killed afterwards; 0: never
};

lab::CandidateSpec spec_of(const TryOptions& options) {
  return {.kernel = options.kernel,
          .changes = options.parameters,
          .source = options.unit.empty() ? std::string() : lab::read_source(options.unit)};
}

/// Formats a reason for printing; a compiler's message may have several lines.
std::string lines_of(const std::string& reason) {
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
    std::cout << (first ? "  not asked: " : ", ") << lab::to_string(gate)
              << (last ? fmt::format(": {}\n", why) : "");
  }
  if (result.worst.has_value()) {
    std::cout << fmt::format(
        "  {} outputs were judged; the worst error is {:.2e}, {:.2e} of its value\n",
        result.checked, *result.worst, result.worst_relative.value_or(0.0));
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
                             lines_of(result.reason))
              << std::flush;
  } else {
    std::cout << (result.valid.has_value() ? "valid\n"
                                           : "not judged: it has not run, and may be wrong\n")
              << std::flush;
  }
}

/// A parsed line of a batch.
struct Prepared {
  bool any = false;
  std::shared_ptr<lab::CandidateTrials::Prepared> candidate;  // null: the line is malformed
  std::string wrong;
};

Prepared prepare_line(const lab::CandidateTrials& trials, const TryOptions& options) {
  Prepared next;
  std::string line;
  if (!std::getline(std::cin, line)) {
    return next;
  }
  next.any = true;
  try {
    const auto json = io::parse_json_object(line, "a candidate");
    lab::CandidateSpec spec = spec_of(options);
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
        throw Error(
            fmt::format("a candidate has \"kernel\" and \"parameters\", but no \"{}\"", key));
      }
    }
    next.candidate = trials.prepare(spec);
  } catch (const std::exception& error) {
    next.wrong = error.what();
  }
  return next;
}

/// Prints one line of JSON for each line of the input, in order. The next candidate is compiled
/// while one runs on the GPU.
int run_batch(lab::CandidateTrials& trials, const TryOptions& options) {
  const auto prepare = [&] {
    return std::async(std::launch::async, prepare_line, std::cref(trials), std::cref(options));
  };
  for (std::future<Prepared> coming = prepare();;) {
    const Prepared next = coming.get();
    if (!next.any) {
      return kDone;
    }
    coming = prepare();
    std::cout
        << (next.candidate != nullptr
                ? lab::to_json(trials.finish(next.candidate))
                : Json{{"valid", false}, {"failed_at", "question"}, {"reason", next.wrong}}.dump())
        << std::endl;
  }
}

int run_try(const TryOptions& options) {
  if (options.max_seconds > 0) {
    ::alarm(static_cast<unsigned>(options.max_seconds));  // in case a kernel never ends
  }
  lab::CandidateSetting setting = options.setting;
  setting.card = &only_card(options.cards);
  const std::unique_ptr<gpu::Device> device = open_gpu_if_any(options.gpu);
  lab::CandidateTrials trials(device.get(), kernel_sources_of(options.sources), setting);
  if (options.batch) {
    return run_batch(trials, options);
  }
  const lab::CandidateResult result = trials.run(spec_of(options));
  if (options.json.leaves_text()) {
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
                       "time it beside the launcher's choice",
                       run_try);
  add_level_on_gpu(command, options.gpu, options.setting.case_name, options.setting.level);
  add_seed(command, options.setting.seed);
  add_first_kernel(command, options.kernel);
  add_parameters_option(command, options.parameters);
  add_sources(command, options.sources);
  add_text(command, "--unit", "FILE", options.unit,
           "A file that replaces the one source in which the kernel is written");
  add_flag(
      command, "--batch", options.batch,
      "Take one candidate a line from standard input, such as {\"parameters\": {\"stages\": 3}}, "
      "and write each result as one line of JSON");
  add_whole(command, "--most-seconds", {0, 86400}, options.max_seconds,
            "Seconds after which the program is killed, because a kernel may never end (0: never)");
  explain(command,
          {"The gates are asked in order, the cheap ones first: legal, compile, resources, small "
           "cases, mutants, the case itself, time. Without a GPU those of the compiler are asked.",
           "The exit code is 0 for a valid candidate, 1 for an invalid one, 3 for one that was not "
           "judged, because it cannot run here."},
          {"fovea kernel try attention --level wmma --parameters '{\"stages\": 3}'"});
}

}  // namespace fovea::cli::kernel
