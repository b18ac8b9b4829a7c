// `fovea pull`: fetches a model from a hub into the local cache and prints its folder.
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_option.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "fovea/hub.hpp"

namespace fovea::cli {
namespace {

using Json = nlohmann::ordered_json;

using Clock = std::chrono::steady_clock;

void show(const PullProgress& progress, Clock::time_point start, ProgressLine& line) {
  if (!progress.notice.empty()) {
    say(progress.notice);
    return;
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  const double per_second = static_cast<double>(progress.received) / seconds.count();
  const std::string stage = progress.file.empty() ? "asking the hub" : progress.file;
  constexpr double kBytesPerMegabyte = 1e6;
  line.show(
      [&] {
        return std::vector<ProgressPart>{
            {printable_name(stage), 3},
            {progress.total > 0
                 ? fmt::format(": {:.1f} of {:.1f} MB, {:.1f} MB/s",
                               static_cast<double>(progress.bytes) / kBytesPerMegabyte,
                               static_cast<double>(progress.total) / kBytesPerMegabyte,
                               per_second / kBytesPerMegabyte)
                 : fmt::format(" for {:.0f} s", seconds.count())}};
      },
      [&] {
        return Json{{"event", "progress"},
                    {"stage", stage},
                    {"unit", "bytes"},
                    {"done", progress.bytes},
                    {"total", or_null(progress.total > 0, progress.total)},
                    {"seconds", seconds.count()},
                    {"per_second", per_second},
                    {"seconds_left", nullptr}};
      });
}

}  // namespace

void add_pull(CLI::App& app, Run& run) {
  struct Options {
    PullOptions pull;
    ProgressArguments progress;
    JsonOutput json;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("pull", "Fetch a model from a Hugging Face hub into the local cache");
  const auto take_model = add_model(*command, options->pull.id);
  add_text(*command, "--revision", "NAME", options->pull.revision, "Branch, tag or commit");
  add_integer(*command, "--retries", {0, 100}, options->pull.retries,
              "Retries of a request that returns no new data");
  add_progress_options(*command, options->progress);
  options->json.add_to(*command);
  explain(
      *command,
      {"Prints the model's folder on the standard output.",
       "Environment: HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE=1 (only looks "
       "up), HF_HUB_DOWNLOAD_TIMEOUT (30: seconds that a download may be slower than 1 kB/s), "
       "HF_HUB_ETAG_TIMEOUT (60: seconds for any other reply), SSL_CERT_FILE, https_proxy."},
      {"fovea pull google/siglip2-base-patch16-224"});
  command->callback([options, take_model, &run] {
    take_model();
    run = [options] {
      ProgressLine line(options->progress);
      const Clock::time_point start = Clock::now();
      const std::filesystem::path folder =
          pull(options->pull, [&](const PullProgress& progress) { show(progress, start, line); });
      ProgressLine::clear();
      if (options->json.prints_text()) {
        std::cout << folder.native() << '\n';
      }
      options->json.write({{"model", options->pull.id},
                           {"revision", options->pull.revision},
                           {"folder", folder.string()}});
      return kDone;
    };
  });
}

}  // namespace fovea::cli
