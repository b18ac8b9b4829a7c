// The gate for times, which compares the figures of a run with the last committed ones of the same
// GPU.
//
// A figure fails if it is more than 5% slower than before while its peer in the same run changed by
// less than 2%, which shows that the kernel changed and not the machine. If the peer changed by
// more, the figure fails only if it is also more than 5% slower relative to the peer. Figures that
// cannot be judged are reported with the reason.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::lab {

inline constexpr double kMaxSlowdown = 0.05;
inline constexpr double kSteadyPeer = 0.02;

/// A time, with those of its peers in the same run.
struct TimedFigure {
  std::string what;                       // key for matching runs: "attention b256_h16_n256_d72"
  double work = 0.0;                      // operations; only figures with equal work are compared
  double seconds = 0.0;                   // median
  double spread = 0.0;                    // from the 10th to the 90th percentile, in seconds
  std::map<std::string, double> peers{};  // seconds of other libraries for the same problem
  /// Reciprocal of each measured ceiling of the GPU; used if there is no peer.
  std::map<std::string, double> ceilings{};
};

/// Returns the figures in a result, of the kernels chosen by the launcher and of the encoder.
/// `name` is the file's name in messages. Throws fovea::Error if it is not a JSON object.
[[nodiscard]] std::vector<TimedFigure> timed_figures(std::string_view json,
                                                     const std::string& name);

/// Returns the name of the GPU that a result was measured on; empty if unknown. Throws as
/// timed_figures() does.
[[nodiscard]] std::string gpu_of_result(std::string_view json, const std::string& name);

/// A figure's last committed value, and its file.
struct EarlierFigure {
  TimedFigure figure;
  std::string file;
};
using EarlierFigures = std::map<std::string, EarlierFigure>;  // by TimedFigure::what

/// Returns the figures for this GPU from a file, or from all results below a folder: for each
/// figure the latest one by date and run (DATE-RUN-COMMIT.json). The result is empty if a folder
/// has no figures for this GPU. Throws fovea::Error if there is no such file or folder, or if a
/// file is for another GPU or not JSON.
[[nodiscard]] EarlierFigures earlier_figures(const std::string& path, const std::string& gpu);

/// Returns the folder bench/results in the source tree of this build, or "" if there is none.
[[nodiscard]] std::string committed_results();

enum class TimeVerdict : std::uint8_t { kSteady, kSlower, kNotJudged };
[[nodiscard]] std::string_view to_string(TimeVerdict verdict);

struct TimeChange {
  std::string what;
  std::string file{};    // file of the earlier figure; empty if there is none
  double earlier = 0.0;  // seconds
  double now = 0.0;      // seconds
  double change = 0.0;   // 0.4 if the time is 40% longer
  std::string peer{};    // peer that shows whether the machine changed; empty if there is none
  double peer_change = 0.0;
  TimeVerdict verdict = TimeVerdict::kNotJudged;
  std::string reason{};  // why it was not judged
};

/// Compares each figure with its earlier value, in order.
[[nodiscard]] std::vector<TimeChange> compare_times(std::span<const TimedFigure> now,
                                                    const EarlierFigures& earlier);

/// Returns the comparisons as a JSON array.
[[nodiscard]] std::string to_json(std::span<const TimeChange> changes);

}  // namespace fovea::lab
