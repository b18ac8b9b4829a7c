// `fovea kernel parameters` and `fovea kernel try`: tuning parameters, and one candidate with
// others.
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"
#include "io/json.hpp"
#include "lab/cards/card.hpp"
#include "lab/evolve/candidate.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::cli {
lab::CandidateSetting candidate_setting_of(const KernelArguments& arguments) {
  const std::vector<const lab::Card*> cards = lab::find_cards(arguments.names);
  if (arguments.names.size() != 1) {
    throw Error("this command takes one card; `fovea kernel list` names them");
  }
  return {.card = cards.front(),
          .case_name = arguments.check.only_case,
          .level = arguments.level,
          .seed = arguments.check.seed};
}

lab::KernelSources kernel_sources_of(const KernelArguments& arguments) {
  return arguments.sources.empty() ? lab::KernelSources::built_in()
                                   : lab::KernelSources::from_folder(arguments.sources);
}

namespace {

using Json = nlohmann::ordered_json;

std::string unit_of(const KernelArguments& arguments) {
  return arguments.unit.empty() ? std::string() : lab::read_source(arguments.unit);
}

/// As it is to be printed, where a compiler may have said several lines.
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

/// A line of a batch, prepared.
struct Prepared {
  bool any = false;
  std::shared_ptr<lab::CandidateTrials::Prepared> candidate;  // null: the line is wrong
  std::string wrong;
};

Prepared prepare_line(const lab::CandidateTrials& trials, const KernelArguments& arguments) {
  Prepared next;
  std::string line;
  if (!std::getline(std::cin, line)) {
    return next;
  }
  next.any = true;
  try {
    const auto json = io::parse_json_object(line, "a candidate");
    lab::CandidateSpec spec{
        .kernel = arguments.kernel, .changes = arguments.parameters, .source = unit_of(arguments)};
    for (const auto& [key, value] : json.items()) {
      if (key == "kernel") {
        spec.kernel = value.get<std::string>();
      } else if (key == "parameters") {
        auto changes = parameters_in(value);
        if (!changes.has_value()) {
          throw Error("\"parameters\" is no JSON object of whole numbers");
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

/// One line of JSON for each line of the input, in its order. While a candidate is on the GPU the
/// next one is compiled.
int run_batch(lab::CandidateTrials& trials, const KernelArguments& arguments) {
  const auto prepare = [&] {
    return std::async(std::launch::async, prepare_line, std::cref(trials), std::cref(arguments));
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

}  // namespace

int run_parameters(const KernelArguments& arguments) {
  const lab::CandidateSetting setting = candidate_setting_of(arguments);
  const std::unique_ptr<gpu::Device> device = open_gpu_if_any(arguments);
  const gpu::DeviceInfo info = device == nullptr ? lab::assumed_device() : device->info();
  const std::vector<lab::TuningSpace> spaces =
      lab::tuning_spaces(info, kernel_sources_of(arguments), setting);
  if (arguments.json.leaves_text()) {
    for (const lab::TuningSpace& space : spaces) {
      std::cout << fmt::format("{}\n", space.kernel);
      for (const lab::ParameterRange& range : space.ranges) {
        std::cout << fmt::format("    {:<14} {:>4}   of {}\n", range.name,
                                 lab::value_of(space.values, range.name),
                                 fmt::join(range.values, ", "));
      }
    }
  }
  arguments.json.write({{"kernels", Json::parse(lab::to_json(spaces))}});
  return kDone;
}

int run_try(const KernelArguments& arguments) {
  if (arguments.most_seconds > 0) {
    ::alarm(static_cast<unsigned>(arguments.most_seconds));  // a kernel may never end
  }
  const lab::CandidateSetting setting = candidate_setting_of(arguments);
  const std::unique_ptr<gpu::Device> device = open_gpu_if_any(arguments);
  lab::CandidateTrials trials(device.get(), kernel_sources_of(arguments), setting);
  if (arguments.batch) {
    return run_batch(trials, arguments);
  }
  const lab::CandidateResult result = trials.run(
      {.kernel = arguments.kernel, .changes = arguments.parameters, .source = unit_of(arguments)});
  if (arguments.json.leaves_text()) {
    print(result);
  }
  arguments.json.write(Json::parse(lab::to_json(result)));
  return !result.valid.has_value() ? kNotJudged : *result.valid ? kDone : kFailed;
}

}  // namespace fovea::cli
