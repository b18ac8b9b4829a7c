// ProgressLine: shows the progress of a long command on stderr.
//
// On a terminal it is one line that is rewritten and never wraps: it is cut to the current width of
// the window. Elsewhere it prints a line every 5 seconds; with --progress json, an object every
// second. Messages (say(), print_event()) take the line's place, and it comes back with its
// next update.
//
//   ProgressArguments arguments;                  // of the command
//   add_progress_options(command, arguments);     // --progress and --quiet
//   ...
//   ProgressLine line(arguments);                 // when the command runs
//   collection.duplicates(threshold, [&](std::uint64_t done, std::uint64_t total) {
//     line.update("comparing", "rows", done, total);   // from any thread, as often as one likes
//   });
//   line.clear();                                 // before printing on stdout; at the end by
//   itself
//
// This prints "comparing: 1200 of 70000 rows, 800.0 per second, 1:26 left", or the event
//   {"event":"progress","stage":"comparing","unit":"rows","done":1200,"total":70000,
//    "seconds":1.5,"per_second":800.0,"seconds_left":86.0}
// whose "total" and "seconds_left" are null while they are unknown.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

#include "core/rate.hpp"

namespace fovea::cli {

struct ProgressArguments {
  std::string progress = "auto";
  bool quiet = false;
};

/// Adds --progress and --quiet.
void add_progress_options(CLI::App& command, ProgressArguments& arguments);

/// Applies --progress and --quiet of the chosen command to the program's messages: text, JSON or
/// none.
void configure_messages(const CLI::App& app);

/// "0:07", "1:02:03".
[[nodiscard]] std::string duration_text(double seconds);

/// Prints "fovea: computing on cpu (...)", or the event "device".
void tell_device(std::string_view device);
/// The same for a search: "fovea: comparing on ...".
void tell_search_device(std::string_view device);

/// A part of a line. When the line is too long, parts with the highest rank are omitted first;
/// parts of rank 0 are truncated.
struct ProgressPart {
  std::string text;  // includes the separator before it
  int rank = 0;
};

/// Joins the parts that fit into `columns`.
[[nodiscard]] std::string fit_parts(const std::vector<ProgressPart>& parts, int columns);

class ProgressLine {
 public:
  explicit ProgressLine(const ProgressArguments& arguments);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Reports that `done` of `total` units, such as "rows", of a stage, such as "comparing", are
  /// done; a `total` of 0 means unknown. The first update with another stage begins that stage.
  /// Thread-safe and cheap.
  void update(std::string_view stage, std::string_view unit, std::uint64_t done,
              std::uint64_t total);

  /// Shows a state whose text the caller formats, unless another one was shown less than interval()
  /// ago. Thread-safe; `parts` and `event` are only called when they are needed.
  void show(const std::function<std::vector<ProgressPart>()>& parts,
            const std::function<nlohmann::ordered_json()>& event);

  /// False when progress is never shown.
  [[nodiscard]] bool is_shown() const { return style_ != Style::kNone; }
  /// The minimum time between two updates that are shown.
  [[nodiscard]] std::chrono::milliseconds interval() const;
  static void clear();

 private:
  using Clock = Rate::Clock;
  enum class Style : std::uint8_t { kTerminal, kLines, kJson, kNone };

  /// Returns whether it is time to show a state; if so, the next one is due after interval().
  bool take_turn();

  Style style_;
  std::atomic<Clock::rep> due_;  // time of the next update, since the epoch of Clock
  std::mutex mutex_;             // protects the members below
  std::string stage_;
  Clock::time_point start_;
  Rate rate_;
};

}  // namespace fovea::cli
