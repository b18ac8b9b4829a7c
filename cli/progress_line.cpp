// Formats the progress line and decides when to update it.
#include "cli/progress_line.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/json_output.hpp"
#include "cli/options.hpp"
#include "cli/terminal.hpp"

namespace fovea::cli {
namespace {

// Columns left free at the end of the line for the cursor and for the "^C" that a terminal echoes.
constexpr int kSpareColumns = 3;

void print_device(std::string_view stage, std::string_view device) {
  print_event(fmt::format("fovea: {} on {}", stage, io::printable(device)),
              {{"event", "device"}, {"stage", stage}, {"device", device}});
}

}  // namespace

void add_progress_options(CLI::App& command, ProgressArguments& arguments) {
  add_choice(command, "--progress", {"auto", "json", "none"}, arguments.progress,
             "Progress on stderr; auto writes text")
      ->group(kReportGroup);
  add_flag(command, "-q,--quiet", arguments.quiet, "Print nothing but fatal errors")
      ->group(kReportGroup);
}

void configure_messages(const CLI::App& app) {
  if (const CLI::Option* progress = app.get_option_no_throw("--progress")) {
    set_messages(progress->as<std::string>() == "json",
                 app.get_option_no_throw("--quiet")->as<bool>());
  }
  for (const CLI::App* command : app.get_subcommands()) {
    configure_messages(*command);
  }
}

std::string duration_text(double seconds) {
  const auto whole_seconds = static_cast<std::uint64_t>(std::llround(seconds));
  const std::uint64_t hours = whole_seconds / 3600;
  const std::uint64_t minutes = whole_seconds / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole_seconds % 60)
                   : fmt::format("{}:{:02}", minutes, whole_seconds % 60);
}

void tell_device(std::string_view device) {
  print_device("computing", device);
}

void tell_search_device(std::string_view device) {
  print_device("comparing", device);
}

std::string fit_parts(const std::vector<ProgressPart>& parts, int columns) {
  int rank = 0;
  for (const ProgressPart& part : parts) {
    rank = std::max(rank, part.rank);
  }
  for (;; --rank) {
    std::string text;
    for (const ProgressPart& part : parts) {
      text += part.rank <= rank ? part.text : "";
    }
    if (rank <= 0 || text_columns(text) <= columns) {
      return std::string(cut_to_columns(text, columns));
    }
  }
}

ProgressLine::ProgressLine(const ProgressArguments& arguments)
    : style_(arguments.quiet || arguments.progress == "none" ? Style::kNone
             : arguments.progress == "json"                  ? Style::kJson
             : stderr_is_terminal()                          ? Style::kTerminal
                                                             : Style::kLines),
      // When lines cannot be rewritten, short commands print no progress.
      due_((Clock::now() + (style_ == Style::kLines ? interval() : std::chrono::milliseconds(0)))
               .time_since_epoch()
               .count()) {}

std::chrono::milliseconds ProgressLine::interval() const {
  return std::chrono::milliseconds(style_ == Style::kTerminal ? 200
                                   : style_ == Style::kJson   ? 1000
                                                              : 5000);
}

bool ProgressLine::take_turn() {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep due = due_.load(std::memory_order_relaxed);
  const Clock::duration step =
      interval() * 9 / 10;  // a caller's timer with the same interval may be slightly early
  return style_ != Style::kNone && now >= due &&
         due_.compare_exchange_strong(due, now + step.count());
}

void ProgressLine::update(std::string_view stage, std::string_view unit, std::uint64_t done,
                          std::uint64_t total) {
  if (style_ == Style::kNone) {
    return;
  }
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (stage != stage_) {
    stage_ = stage;
    start_ = now;
    rate_.start(now, done);
    if (style_ != Style::kLines) {
      due_ = now.time_since_epoch().count();
    }
  }
  rate_.set(now, done);
  const double rate = rate_.per_second(now);
  std::optional<double> seconds_left;
  if (total > 0 && rate > 0) {
    seconds_left = static_cast<double>(total - std::min(done, total)) / rate;
  }
  show(
      [&] {
        return std::vector<ProgressPart>{
            {stage_ + ": "},
            {total > 0 ? fmt::format("{} of {} {}", done, total, unit)
                       : fmt::format("{} {}", done, unit)},
            {rate > 0 ? fmt::format(", {:.1f} per second", rate) : "", 2},
            {seconds_left ? fmt::format(", {} left", duration_text(*seconds_left)) : "", 1}};
      },
      [&] {
        return nlohmann::ordered_json{
            {"event", "progress"},
            {"stage", stage_},
            {"unit", unit},
            {"done", done},
            {"total", or_null(total > 0, total)},
            {"seconds", std::chrono::duration<double>(now - start_).count()},
            {"per_second", rate},
            {"seconds_left", or_null(seconds_left.has_value(), seconds_left.value_or(0))}};
      });
}

void ProgressLine::show(const std::function<std::vector<ProgressPart>()>& parts,
                        const std::function<nlohmann::ordered_json()>& event) {
  if (!take_turn()) {
    return;
  }
  if (style_ == Style::kTerminal) {
    rewrite_line(fit_parts(parts(), terminal_columns() - kSpareColumns));
  } else if (style_ == Style::kLines) {
    constexpr int kUnlimited = 1 << 20;
    print_event(fit_parts(parts(), kUnlimited), {});
  } else {
    print_event("", event());
  }
}

void ProgressLine::clear() {
  clear_line();
}

}  // namespace fovea::cli
