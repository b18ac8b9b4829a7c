// `fovea pull`: fetches a model from a hub into the local cache and prints its folder.
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "fovea/hub.hpp"

namespace fovea::cli {
namespace {

using Clock = std::chrono::steady_clock;

void show(const PullProgress& progress, Clock::time_point start, ProgressLine& line) {
  if (!progress.notice.empty()) {
    say(progress.notice);
    return;
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  const double per_second = static_cast<double>(progress.received) / seconds.count();
  constexpr double kMega = 1e6;
  line.show(
      [&] {
        return std::vector<ProgressPart>{
            {printable_name(progress.file) + ": ", 3},
            {fmt::format("{:.1f} of {:.1f} MB", static_cast<double>(progress.bytes) / kMega,
                         static_cast<double>(progress.total) / kMega)},
            {fmt::format(", {:.1f} MB/s", per_second / kMega), 1}};
      },
      [&] {
        return nlohmann::ordered_json{{"event", "progress"},      {"stage", progress.file},
                                      {"unit", "bytes"},          {"done", progress.bytes},
                                      {"total", progress.total},  {"seconds", seconds.count()},
                                      {"per_second", per_second}, {"seconds_left", nullptr}};
      });
}

}  // namespace

void add_pull(CLI::App& app, Run& run) {
  struct Options {
    PullOptions pull;
    ProgressArguments progress;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("pull", "Fetch a model from a Hugging Face hub into the local cache");
  command->add_option("model", options->pull.id, "org/name on the hub")->required();
  command->add_option("--revision", options->pull.revision, "Branch, tag or commit");
  command
      ->add_option("--retries", options->pull.retries,
                   "Retries of a request that brings no new data")
      ->check(CLI::Range(0, 100));
  add_progress_options(*command, options->progress);
  command->footer(
      "Prints the model's folder. Environment: HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE,\n"
      "HF_HUB_OFFLINE=1 (only looks up), HF_HUB_DOWNLOAD_TIMEOUT (30: seconds that a download may\n"
      "be slower than 1 kB/s), HF_HUB_ETAG_TIMEOUT (60: seconds for any other reply),\n"
      "SSL_CERT_FILE, https_proxy.");
  command->callback([options, &run] {
    run = [options] {
      ProgressLine line(options->progress);
      const Clock::time_point start = Clock::now();
      const std::filesystem::path folder =
          pull(options->pull, [&](const PullProgress& progress) { show(progress, start, line); });
      ProgressLine::clear();
      std::cout << folder.native() << '\n';
      return kDone;
    };
  });
}

}  // namespace fovea::cli
