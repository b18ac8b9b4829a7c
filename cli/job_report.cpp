// Progress lines, failure lines and summaries, for people and as JSON.
#include "cli/job_report.hpp"

#include <cmath>
#include <csignal>
#include <iostream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/terminal.hpp"

namespace fovea::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kFailuresShown = 10;

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler sets it

extern "C" void request_stop(int /*signal*/) {
  stop_requested = true;
  std::signal(SIGINT, SIG_DFL);  // the second signal of either kind kills the program
  std::signal(SIGTERM, SIG_DFL);
  constexpr std::string_view kText = "\nfovea: stopping; a second signal kills the program\n";
  // Nothing can be done about a failed write here.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  const std::uint64_t hours = whole / 3600;
  const std::uint64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

int percent(double share) {
  return static_cast<int>(std::lround(share * 100));
}

}  // namespace

const std::atomic<bool>* catch_signals() {
  struct sigaction action{};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
  }
  return &stop_requested;
}

JobReporter::JobReporter(const JobArguments& arguments, std::string errors_file)
    : style_(arguments.progress == "json"                      ? ProgressStyle::kJson
             : arguments.quiet || arguments.progress == "none" ? ProgressStyle::kNone
                                                               : ProgressStyle::kText),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      quiet_(arguments.quiet),
      errors_file_(std::move(errors_file)) {}

JobControl JobReporter::control() {
  JobControl control;
  control.stop = catch_signals();
  if (style_ != ProgressStyle::kNone) {
    control.on_progress = [this](const JobProgress& progress) { show(progress); };
    control.progress_interval = style_ == ProgressStyle::kText && is_terminal_
                                    ? std::chrono::milliseconds(200)
                                : style_ == ProgressStyle::kJson ? std::chrono::milliseconds(1000)
                                                                 : std::chrono::milliseconds(5000);
  }
  if (!quiet_) {
    control.on_failure = [this](const JobFailure& failure) { show(failure); };
    const auto tell = [this](const char* event, std::string_view what) {
      return [=, this](std::string_view text) {
        line(style_ == ProgressStyle::kJson ? json_text({{"event", event}, {event, text}})
                                            : fmt::format("fovea: {}{}", what, io::printable(text)),
             true);
      };
    };
    control.on_device = tell("device", "computing on ");
    control.on_note = tell("note", "");
  }
  return control;
}

// "\033[K" clears the rest of a longer line.
void JobReporter::line(const std::string& text, bool stays) {
  const std::lock_guard lock(mutex_);
  std::string out = line_is_open_ ? "\r\033[K" : "";
  out += text;
  line_is_open_ = is_terminal_ && !stays;
  out += line_is_open_ ? "" : "\n";
  std::cerr << out << std::flush;
}

void JobReporter::show(const JobProgress& progress) {
  if (style_ == ProgressStyle::kJson) {
    Json json{{"event", "progress"},
              {"rows", progress.rows},
              {"failed", progress.failed},
              {"total", nullptr},
              {"seconds", progress.seconds},
              {"images_per_second", progress.images_per_second},
              {"seconds_left", nullptr},
              {"decode_share", progress.decode_share},
              {"compute_share", progress.compute_share},
              {"write_share", progress.write_share}};
    if (progress.total_inputs) {
      json["total"] = *progress.total_inputs;
    }
    if (progress.seconds_left) {
      json["seconds_left"] = *progress.seconds_left;
    }
    line(json_text(json), true);
    return;
  }
  std::string text = fmt::format("{}", progress.rows);
  if (progress.total_inputs) {
    text += fmt::format(" of {}", *progress.total_inputs);
  }
  text += fmt::format(" images, {:.1f} img/s", progress.images_per_second);
  if (progress.seconds_left) {
    text += fmt::format(", {} left", duration(*progress.seconds_left));
  }
  if (progress.failed > 0) {
    text += fmt::format(", {} failed", progress.failed);
  }
  text += fmt::format(" (decode {} %, compute {} %, write {} %)", percent(progress.decode_share),
                      percent(progress.compute_share), percent(progress.write_share));
  line(text, false);
}

void JobReporter::show(const JobFailure& failure) {
  if (style_ == ProgressStyle::kJson) {
    line(json_text({{"event", "failure"}, {"source", failure.source}, {"error", failure.error}}),
         true);
    return;
  }
  if (++failures_shown_ <= kFailuresShown) {
    line(
        fmt::format("failed: {}: {}", printable_name(failure.source), io::printable(failure.error)),
        true);
  }
  if (failures_shown_ == kFailuresShown + 1) {
    line(fmt::format("more inputs failed; {} lists them all", printable_name(errors_file_)), true);
  }
}

int JobReporter::finish(const JobReport& report) {
  const int code = report.interrupted  ? kInterrupted
                   : report.failed > 0 ? kSomeInputsFailed
                                       : kDone;
  if (style_ == ProgressStyle::kJson) {
    line(json_text({{"event", "done"},
                    {"rows", report.rows},
                    {"new_rows", report.new_rows},
                    {"failed", report.failed},
                    {"resumed", report.resumed},
                    {"already_done", report.already_done},
                    {"interrupted", report.interrupted},
                    {"seconds", report.seconds},
                    {"images_per_second", report.images_per_second},
                    {"decode_share", report.decode_share},
                    {"compute_share", report.compute_share},
                    {"write_share", report.write_share},
                    {"decode_utilisation", report.decode_utilisation}}),
         true);
    return code;
  }
  if (quiet_) {
    return code;
  }
  if (report.already_done) {
    line(fmt::format("already done: {} images, {} failed", report.rows, report.failed), true);
    return code;
  }
  std::string text =
      fmt::format("{} image{} in {:.1f} s ({:.1f} img/s)", report.new_rows,
                  report.new_rows == 1 ? "" : "s", report.seconds, report.images_per_second);
  if (report.resumed) {
    text += fmt::format(", {} in total", report.rows);
  }
  if (report.failed > 0) {
    text += fmt::format(", {} failed (see {})", report.failed, printable_name(errors_file_));
  }
  const std::pair<double, std::string_view> stages[] = {
      {report.compute_share, "computing"},
      {report.decode_share, "reading and decoding"},
      {report.write_share, "writing"}};
  const auto* slowest = &stages[0];
  for (const auto& stage : stages) {
    slowest = stage.first > slowest->first ? &stage : slowest;
  }
  text += fmt::format("; bound by {} (decode {} %, compute {} %, write {} % of the time)",
                      slowest->second, percent(report.decode_share), percent(report.compute_share),
                      percent(report.write_share));
  line(text, true);
  if (report.interrupted) {
    line("interrupted; the same command resumes from here", true);
  }
  return code;
}

}  // namespace fovea::cli
