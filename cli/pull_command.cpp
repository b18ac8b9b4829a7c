// `fovea pull`: fetches a model from a hub into the local cache and prints its folder.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/json_output.hpp"
#include "cli/model_option.hpp"
#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "fovea/hub.hpp"

namespace fovea::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Shows bytes and rate on stderr: one line that is rewritten on a terminal, else a line every 5 s.
class PullReport {
 public:
  explicit PullReport(bool quiet) : quiet_(quiet), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

  void operator()(const PullProgress& progress) {
    if (!progress.notice.empty()) {
      end_line();
      say(progress.notice);
      return;
    }
    const Clock::time_point now = Clock::now();
    const auto interval = is_terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(5);
    if (quiet_ || now - shown_ < interval) {
      return;
    }
    shown_ = now;
    const std::chrono::duration<double> seconds = now - start_;
    constexpr double kMega = 1e6;
    const std::string line = fmt::format(
        "{}: {:.1f} of {:.1f} MB ({:.0f}%), {:.1f} MB/s", printable_name(progress.file),
        static_cast<double>(progress.bytes) / kMega, static_cast<double>(progress.total) / kMega,
        progress.total == 0
            ? 100.0
            : 100.0 * static_cast<double>(progress.bytes) / static_cast<double>(progress.total),
        static_cast<double>(progress.received) / kMega / seconds.count());
    // "\033[K" clears the rest of a longer line.
    std::cerr << (is_terminal_ ? "\r\033[K" + line : line + "\n") << std::flush;
    line_is_open_ = is_terminal_;
  }

  void end_line() {
    if (line_is_open_) {
      std::cerr << '\n';
      line_is_open_ = false;
    }
  }

 private:
  bool quiet_;
  bool is_terminal_;
  bool line_is_open_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

}  // namespace

void add_pull(CLI::App& app, Run& run) {
  struct Options {
    PullOptions pull;
    bool quiet = false;
    JsonOutput json;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("pull", "Fetch a model from a Hugging Face hub into the local cache");
  const auto take_model = add_model(*command, options->pull.id);
  add_text(*command, "--revision", "NAME", options->pull.revision, "Branch, tag or commit")
      ->group(kInputGroup);
  add_whole(*command, "--retries", {0, 100}, options->pull.retries,
            "Retries of a request that brings no new data")
      ->group(kInputGroup);
  add_quiet(*command, options->quiet);
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
      PullReport report(options->quiet);
      const std::filesystem::path folder =
          pull(options->pull, [&](const PullProgress& progress) { report(progress); });
      report.end_line();
      if (options->json.leaves_text()) {
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
