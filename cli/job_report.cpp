// Progress lines, failure lines and summaries, for people and as JSON.
#include "cli/job_report.hpp"

#include <algorithm>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <semaphore.h>

#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "io/output_place.hpp"

namespace fovea::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxShownFailures = 10;

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // so that a signal handler may set it
sem_t messenger_semaphore;                              // posted by the signal handler

extern "C" void request_stop(int /*signal*/) {
  stop_requested = true;
  std::signal(SIGINT, SIG_DFL);  // the second signal of either kind kills the program
  std::signal(SIGTERM, SIG_DFL);
  ::sem_post(&messenger_semaphore);
}

int percent(double share) {
  return static_cast<int>(std::lround(share * 100));
}

// Returns the columns available for the summary: those of the terminal, unlimited in a log.
int summary_columns() {
  return stderr_is_terminal() ? terminal_columns() : INT_MAX;
}

// Returns "8 files left out (3 video, 2 json, ...)", with as many kinds as fit in a line.
std::string describe_left_out(const FileCounts& left_out) {
  std::vector<std::pair<std::uint64_t, std::string>> kinds;
  std::uint64_t files = 0;
  for (const auto& [kind, count] : left_out) {
    kinds.emplace_back(count, kind);
    files += count;
  }
  std::ranges::sort(kinds, std::ranges::greater());
  for (std::size_t count = kinds.size();; --count) {
    FileCounts shown;
    for (std::size_t i = 0; i < count; ++i) {
      shown[kinds[i].second] = kinds[i].first;
    }
    std::string text = fmt::format("{} file{} left out ({}{})", files, files == 1 ? "" : "s",
                                   fovea::describe(shown), count < kinds.size() ? ", ..." : "");
    if (count <= 1 || text_columns(text) <= summary_columns()) {
      return text;
    }
  }
}

// Adds notes on files that were left out and on images whose values were clipped.
void add_notes(const JobReport& report, std::vector<std::string>& parts) {
  if (!report.left_out.empty()) {
    parts.push_back(describe_left_out(report.left_out));
  }
  if (const std::uint64_t images = report.images_with_lost_range; images > 0) {
    parts.push_back(fmt::format("{} image{} with more than 8 bits clipped (see docs/images.md)",
                                images, images == 1 ? "" : "s"));
  }
}

// Joins the parts in one line, or if that is too long for the terminal, in up to three lines.
std::string join_in_lines(const std::vector<std::string>& parts) {
  constexpr int kMaxLines = 3;
  const int columns = summary_columns();
  std::string text;
  int lines = 1;
  int line_columns = 0;
  for (const std::string& part : parts) {
    const int part_columns = text_columns(part) + (text.empty() ? 0 : 2);
    if (!text.empty() && line_columns + part_columns > columns && lines < kMaxLines) {
      text += '\n' + part;
      ++lines;
      line_columns = part_columns;
    } else {
      text += (text.empty() ? "" : "; ") + part;
      line_columns += part_columns;
    }
  }
  return text;
}

std::string describe_update(const UpdateCounts& counts) {
  const std::string copied_note =
      counts.not_computed == 0
          ? ""
          : fmt::format(" ({} of them copied from rows with the same contents)",
                        group_digits(counts.not_computed));
  return fmt::format("{} added, {} re-embedded{}, {} dropped, {} unchanged",
                     group_digits(counts.added), group_digits(counts.reembedded), copied_note,
                     group_digits(counts.dropped), group_digits(counts.unchanged));
}

Json to_json(const UpdateCounts& counts) {
  return {{"added", counts.added},
          {"reembedded", counts.reembedded},
          {"dropped", counts.dropped},
          {"unchanged", counts.unchanged},
          {"not_computed", counts.not_computed}};
}

}  // namespace

Interruption::Interruption() {
  ::sem_init(&messenger_semaphore, 0, 0);
  try {
    messenger_ = std::thread([this] {
      while (::sem_wait(&messenger_semaphore) != 0) {  // interrupted by another signal
      }
      if (!ended_) {
        print_event("fovea: stopping; a second signal kills the program",
                    {{"event", "interrupting"}});
      }
    });
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): only the message is lost
  }
  struct sigaction action{};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
  }
  io::set_reader_wait_stop_flag(&stop_requested);
}

void Interruption::end() {
  if (messenger_.joinable()) {
    ended_ = !stop_requested;  // after a signal, its message is still printed
    ::sem_post(&messenger_semaphore);
    messenger_.join();
  }
}

const std::atomic<bool>* Interruption::flag() {
  return &stop_requested;
}

JobReporter::JobReporter(const JobArguments& arguments, std::string output, std::string errors_file,
                         std::string noun)
    : output_(std::move(output)),
      errors_file_(std::move(errors_file)),
      noun_(std::move(noun)),
      line_(arguments) {}

JobControl JobReporter::control() {
  JobControl control;
  control.stop = Interruption::flag();
  if (line_.is_shown()) {
    control.on_progress = [this](const JobProgress& progress) { show(progress); };
    control.progress_interval = line_.interval();
  }
  control.on_failure = [this](const JobFailure& failure) { show(failure); };
  control.on_device = tell_device;
  control.on_note = say;
  return control;
}

void JobReporter::show(const JobProgress& progress) {
  line_.show(
      [&] {
        const auto& [total, left] = std::pair(progress.total_inputs, progress.seconds_left);
        return std::vector<ProgressPart>{
            {total ? fmt::format("{} of {} {}s", progress.rows, *total, noun_)
                   : fmt::format("{} {}s", progress.rows, noun_)},
            {fmt::format(", {:.1f} img/s", progress.images_per_second), 3},
            {left ? fmt::format(", {} left", duration_text(*left)) : "", 1},
            {progress.failed > 0 ? fmt::format(", {} failed", progress.failed) : "", 2},
            {fmt::format(" (decode {} %, compute {} %, write {} %)", percent(progress.decode_share),
                         percent(progress.compute_share), percent(progress.write_share)),
             4}};
      },
      [&] {
        const auto& [total, left] = std::pair(progress.total_inputs, progress.seconds_left);
        return Json{{"event", "progress"},
                    {"rows", progress.rows},
                    {"failed", progress.failed},
                    {"total", or_null(total.has_value(), total.value_or(0))},
                    {"seconds", progress.seconds},
                    {"images_per_second", progress.images_per_second},
                    {"seconds_left", or_null(left.has_value(), left.value_or(0))},
                    {"decode_share", progress.decode_share},
                    {"compute_share", progress.compute_share},
                    {"write_share", progress.write_share}};
      });
}

void JobReporter::show(const JobFailure& failure) {
  std::string text =
      fmt::format("failed: {}: {}", printable_name(failure.source), io::printable(failure.error));
  const bool shows_all = errors_file_.empty();
  if (++failures_shown_ == kMaxShownFailures + 1 && !shows_all) {
    text = fmt::format("more inputs failed; {} lists them all", printable_name(errors_file_));
  }
  print_event(shows_all || failures_shown_ <= kMaxShownFailures + 1 ? text : "",
              {{"event", "failure"}, {"source", failure.source}, {"error", failure.error}});
}

std::string JobReporter::failed_inputs(const JobReport& report) const {
  if (report.failed == 0) {
    return "";
  }
  const bool is_listed = !errors_file_.empty() && !(report.interrupted && writes_one_file());
  const std::string new_failures =
      report.update && report.newly_failed < report.failed
          ? fmt::format(", {} of them new", group_digits(report.newly_failed))
          : "";
  return fmt::format(", {} failed{}{}", group_digits(report.failed), new_failures,
                     is_listed ? fmt::format(" (see {})", printable_name(errors_file_)) : "");
}

std::string JobReporter::summary(const JobReport& report) const {
  std::vector<std::string> parts;
  if (report.update) {
    parts.push_back("updated: " + describe_update(*report.update) + failed_inputs(report));
    add_notes(report, parts);
    parts.push_back(
        fmt::format("{} rows in {}", group_digits(report.rows), printable_name(output_)));
    return join_in_lines(parts);
  }
  if (report.already_done) {
    parts.push_back(fmt::format("already done: {} images, {} failed", report.rows, report.failed));
    add_notes(report, parts);
    parts.push_back("they are in " + printable_name(output_));
    return join_in_lines(parts);
  }
  parts.push_back(fmt::format("{} {}{} in {:.1f} s ({:.1f} {}){}{}", report.new_rows, noun_,
                              report.new_rows == 1 ? "" : "s", report.seconds,
                              report.images_per_second, noun_ == "image" ? "img/s" : noun_ + "s/s",
                              report.resumed ? fmt::format(", {} in total", report.rows) : "",
                              failed_inputs(report)));
  add_notes(report, parts);
  // The shares of a short run are dominated by start-up, and say little about the machine.
  constexpr double kMinSeconds = 1;
  if (report.new_rows > 0 && report.seconds >= kMinSeconds) {
    const std::pair<double, std::string_view> stages[] = {
        {report.compute_share, "computing"},
        {report.decode_share, "reading and decoding"},
        {report.write_share, "writing"}};
    parts.push_back(fmt::format("bound by {} (decode {} %, compute {} %, write {} % of the time)",
                                std::ranges::max(stages).second, percent(report.decode_share),
                                percent(report.compute_share), percent(report.write_share)));
  }
  if (report.interrupted) {
    parts.push_back(writes_one_file() ? "interrupted: nothing was written"
                    : output_.empty()
                        ? "interrupted"
                        : "interrupted: the same command resumes in " + printable_name(output_));
  } else if (!output_.empty()) {
    parts.push_back("written to " + printable_name(output_));
  }
  return join_in_lines(parts);
}

int JobReporter::finish(const JobReport& report) {
  interruption_.end();  // prints its message before the summary
  print_event(summary(report), {{"event", "done"},
                                {"output", output_},
                                {"rows", report.rows},
                                {"new_rows", report.new_rows},
                                {"failed", report.failed},
                                {"left_out", report.left_out},
                                {"images_with_lost_range", report.images_with_lost_range},
                                {"update", report.update ? to_json(*report.update) : Json()},
                                {"resumed", report.resumed},
                                {"already_done", report.already_done},
                                {"interrupted", report.interrupted},
                                {"seconds", report.seconds},
                                {"images_per_second", report.images_per_second},
                                {"decode_share", report.decode_share},
                                {"compute_share", report.compute_share},
                                {"write_share", report.write_share},
                                {"decode_utilisation", report.decode_utilisation}});
  return report.interrupted ? kInterrupted : report.failed > 0 ? kSomeInputsFailed : kDone;
}

}  // namespace fovea::cli
