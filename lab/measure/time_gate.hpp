// The gate of times: the figures of a run beside the last committed ones of the same GPU.
//
// A figure fails when it is more than 5% slower than before while the peer that was timed in the
// same run moved less than 2%: then it is the kernel that changed, and not the machine. Where the
// peer moved more, it fails when it is more than 5% slower beside the peer, too. What cannot be
// judged is told, with the reason.
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

/// A time and what was timed beside it.
struct TimedFigure {
  std::string what;      // "attention b256_h16_n256_d72": figures of two runs meet by it
  double work = 0.0;     // operations: another problem of the same name is not compared
  double seconds = 0.0;  // the median
  double spread = 0.0;   // from the 10th to the 90th percentile, in seconds
  std::map<std::string, double> peers{};  // seconds of others on the same problem
  /// Seconds that the run's own GPU took for a unit of each ceiling: what stands in for a peer
  /// where there is none.
  std::map<std::string, double> ceilings{};
};

/// Figures of a result: of its kernels, by the launcher's choice, and of the encoder. `name`, of
/// its file, is for messages. Throws fovea::Error when it is no JSON object.
[[nodiscard]] std::vector<TimedFigure> timed_figures(std::string_view json,
                                                     const std::string& name);

/// The name of the GPU that a result was measured on; empty when it does not say. Throws as
/// timed_figures() does.
[[nodiscard]] std::string gpu_of_result(std::string_view json, const std::string& name);

/// What a figure was when it was last committed, and in which file.
struct EarlierFigure {
  TimedFigure figure;
  std::string file;
};
using EarlierFigures = std::map<std::string, EarlierFigure>;  // by TimedFigure::what

/// Figures of this GPU: of a file, which has to be of it; or of all results in a folder and below
/// it, each from the last that has it by date and run (DATE-RUN-COMMIT.json). Empty when a folder
/// has none of this GPU. Throws fovea::Error when there is no such file or folder, or when a file
/// is of another GPU or no JSON.
[[nodiscard]] EarlierFigures earlier_figures(const std::string& path, const std::string& gpu);

/// The folder bench/results of the sources that this program was built in; empty when there is
/// none.
[[nodiscard]] std::string committed_results();

enum class TimeVerdict : std::uint8_t { kSteady, kSlower, kNotJudged };
[[nodiscard]] std::string_view to_string(TimeVerdict verdict);

struct TimeChange {
  std::string what;
  std::string file{};    // of the earlier figure; empty: there is none
  double earlier = 0.0;  // seconds
  double now = 0.0;      // seconds
  double change = 0.0;   // 0.4: it takes 40% longer
  std::string peer{};    // whose time says whether the machine is the same; empty: there is none
  double peer_change = 0.0;
  TimeVerdict verdict = TimeVerdict::kNotJudged;
  std::string reason{};  // why it was not judged
};

/// Each of the figures, in their order.
[[nodiscard]] std::vector<TimeChange> compare_times(std::span<const TimedFigure> now,
                                                    const EarlierFigures& earlier);

/// A JSON array.
[[nodiscard]] std::string to_json(std::span<const TimeChange> changes);

}  // namespace fovea::lab
