// `fovea kernel sanitize`: compute-sanitizer's tools on the cards.
#include <filesystem>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "lab/cards/card.hpp"
#include "lab/sanitize/sanitize.hpp"

namespace fovea::cli {
namespace {

int sanitize_cards(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  lab::require_sanitizer(arguments.sanitize);
  const std::filesystem::path folder = arguments.output;
  if (!folder.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (failure) {
      throw Error(fmt::format("{} cannot be made: {}", folder.native(), failure.message()));
    }
  }
  const gpu::DeviceInfo device = open_gpu(arguments)->info();
  lab::SanitizeOptions options = arguments.sanitize;
  options.device = arguments.device;
  options.stop = Interruption::flag();
  const auto runs = lab::sanitize(
      std::filesystem::read_symlink("/proc/self/exe"), cards, options,
      [&](const lab::SanitizerRun& run) {
        if (!folder.empty()) {
          io::write_file_atomically(folder / (run.tool + "-" + run.card + ".log"), run.words);
        }
        if (arguments.json.leaves_text()) {
          std::cout << fmt::format("{} {} {}: {} cases, {:.1f} s{}{}\n",
                                   run.passed ? "pass" : "FAIL", run.tool, run.card,
                                   run.cases.size(), run.seconds, run.passed ? "" : ": ",
                                   io::printable(run.reason))
                    << std::flush;
        }
      });
  const auto missing = arguments.names.empty() ? lab::not_launched(runs, device.arch())
                                               : std::map<std::string, std::vector<std::string>>{};
  const auto json =
      nlohmann::ordered_json::parse(lab::to_json(device, runs, missing, arguments.output));
  if (!folder.empty()) {
    io::write_file_atomically(folder / "sanitizers.json", json.dump(1) + '\n');
  }
  const auto passed = std::ranges::count_if(runs, &lab::SanitizerRun::passed);
  if (arguments.json.leaves_text()) {
    for (const auto& [tool, kernels] : missing) {
      std::cout << fmt::format("FAIL {}: {} kernels were never launched: {}\n", tool,
                               kernels.size(), fmt::join(kernels, ", "));
    }
    std::cout << fmt::format("{}/{} passed\n", passed, runs.size());
  }
  arguments.json.write(json, "sanitizers");
  return static_cast<std::size_t>(passed) == runs.size() && missing.empty() ? kDone : kFailed;
}

}  // namespace

int run_sanitize(const KernelArguments& arguments) {
  const Interruption interruption;
  try {
    return sanitize_cards(arguments);
  } catch (const Interrupted&) {
    return kInterrupted;
  }
}

}  // namespace fovea::cli
