// `fovea kernel sanitize`: runs compute-sanitizer's tools on the cards' cases.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/job_report.hpp"
#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "lab/card_files/card_file.hpp"
#include "lab/cards/card.hpp"
#include "lab/sanitize/sanitize.hpp"

namespace fovea::cli::kernel {
namespace {

struct SanitizeOptions : CardOptions {
  lab::SanitizeOptions sanitize;
  std::string output;  // folder for the tools' logs; empty: none
};

int run_sanitize(const SanitizeOptions& options) {
  const Interruption interruption;
  const auto cards = lab::named_cards(options.cards);
  lab::require_sanitizer(options.sanitize);
  const std::filesystem::path folder = options.output;
  if (!folder.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (failure) {
      throw Error(fmt::format("cannot create {}: {}", folder.native(), failure.message()));
    }
  }
  const gpu::DeviceInfo device = open_gpu(options.sanitize.device)->info();
  lab::SanitizeOptions sanitize = options.sanitize;
  sanitize.stop = Interruption::flag();
  const auto runs =
      lab::sanitize(current_program(), cards, sanitize, [&](const lab::SanitizerRun& run) {
        if (!folder.empty()) {
          io::write_file_atomically(folder / (run.tool + "-" + run.card + ".log"), run.words);
        }
        if (options.json.prints_text()) {
          std::cout << fmt::format("{} {} {}: {} cases, {:.1f} s{}{}\n",
                                   run.passed ? "pass" : "FAIL", run.tool, run.card,
                                   run.cases.size(), run.seconds, run.passed ? "" : ": ",
                                   io::printable(run.reason))
                    << std::flush;
        }
      });
  const auto unlaunched_kernels = options.cards.empty()
                                      ? lab::not_launched(runs, device.arch())
                                      : std::map<std::string, std::vector<std::string>>{};
  const auto json =
      nlohmann::ordered_json::parse(lab::to_json(device, runs, unlaunched_kernels, options.output));
  if (!folder.empty()) {
    io::write_file_atomically(folder / "sanitizers.json", json.dump(1) + '\n');
  }
  const auto passed = std::ranges::count_if(runs, &lab::SanitizerRun::passed);
  if (options.json.prints_text()) {
    for (const auto& [tool, kernels] : unlaunched_kernels) {
      std::cout << fmt::format("FAIL {}: {} kernels were never launched: {}\n", tool,
                               kernels.size(), fmt::join(kernels, ", "));
    }
    std::cout << fmt::format("{}/{} passed\n", passed, runs.size());
  }
  options.json.write(json, "sanitizers");
  return static_cast<std::size_t>(passed) == runs.size() && unlaunched_kernels.empty() ? kDone
                                                                                       : kFailed;
}

}  // namespace

void add_sanitize(CLI::App& kernel, Run& run) {
  const auto [command, options] =
      add_card_command(kernel, run, "sanitize",
                       "Run compute-sanitizer's tools on the cards' small cases", run_sanitize);
  add_gpu(command, options.sanitize.device);
  add_text(command, "--tool", "TOOL", options.sanitize.only_tool,
           "Run only synccheck, racecheck, memcheck or initcheck (default: all, in this order)");
  add_integer(command, "--most-seconds", {1, 100000}, options.sanitize.max_seconds,
              "Time limit for one tool on one card");
  add_integer(command, "--jobs", {1, 256}, options.sanitize.jobs,
              "Number of runs at once (default: one per CPU, at most 12)")
      ->group(kComputeGroup);
  add_output_text(command, "-o,--output", "FOLDER", options.output, OutputKind::kSanitizers,
                  "Folder for the log of each run, and for sanitizers.json")
      ->group(kOutputGroup);
  explain(command,
          {"A card that hangs under synccheck is not run under the other tools. If no cards are "
           "named, every kernel that ships for the GPU must be launched under each tool."},
          {"fovea kernel sanitize gemm_qkv_int8", "fovea kernel sanitize --output logs"});
}

}  // namespace fovea::cli::kernel
