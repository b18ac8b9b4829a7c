// compare: which of two sides is faster, from samples of both taken in turns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::lab {

/// What B is beside A.
enum class Speed : std::uint8_t { kSame, kFaster, kSlower, kAmbiguous };
/// "SLOWER".
[[nodiscard]] std::string_view to_string(Speed speed);

/// Differences of time up to this share are none.
inline constexpr double kSamplesThreshold = 0.01;

/// Seconds of A and of B, taken one right after the other.
struct SamplePair {
  double a = 0.0;
  double b = 0.0;
};

struct SpeedVerdict {
  Speed speed = Speed::kAmbiguous;
  double ratio = 1.0;  // B's time over A's: more than 1 when B is slower
  double low = 0.0;    // the ratio lies between `low` and `high`
  double high = 0.0;
};

/// FASTER or SLOWER when the whole interval of a ratio is beyond the threshold, SAME when it is
/// within, else AMBIGUOUS.
[[nodiscard]] Speed judge_interval(double low, double high, double threshold);

/// The median of the pairs' ratios, and the interval that holds the true median with 99.9%
/// confidence, whatever the distribution: each time that it is looked at, of which there may be
/// eleven. Both samples of a pair share what drifts slowly, and a median ignores what happens to
/// fewer than half of them. AMBIGUOUS when they are too few, or a time is no number.
[[nodiscard]] SpeedVerdict judge_pairs(std::span<const SamplePair> pairs, double threshold);

/// How long pairs are taken.
struct PairsWanted {
  double threshold = kSamplesThreshold;
  int first = 16;  // then they are judged
  int more = 8;    // while the verdict is AMBIGUOUS
  int limit = 96;
};

struct JudgedPairs {
  SpeedVerdict verdict;
  int pairs = 0;
  int dropped = 0;
};

/// Takes pairs until the verdict is clear or there are the most. `next` gives none when the GPU was
/// slowed down. Throws fovea::Error when it was that as often as pairs may be taken.
[[nodiscard]] JudgedPairs judge_until_clear(const PairsWanted& wanted,
                                            const std::function<std::optional<SamplePair>()>& next);

/// A program that follows the step protocol (lab/measure/steps.hpp).
struct StepProgram {
  std::string what;  // "this program, level wmma"
  std::vector<std::string> command;
};

struct StepOptions {
  PairsWanted wanted{};
  int pairs_per_start = 8;  // then both start anew, with their tensors elsewhere
  std::uint64_t seed = 1;   // draws which one goes first
  double ready_seconds = 300;
  double sample_seconds = 60;
};

/// One side of a comparison.
struct StepSide {
  std::string ready;     // what it said of itself: a JSON object
  double seconds = 0.0;  // median
  double spread = 0.0;   // from the 10th to the 90th percentile, seconds
  int sm_mhz = 0;        // median
  double watts = 0.0;    // median
};

struct StepComparison {
  JudgedPairs judged;
  StepSide a;
  StepSide b;
};

/// Samples two programs on one GPU in turns, never both at once, until the verdict is clear or the
/// limit is reached. Throws fovea::Error that names the side which did not start, did not answer in
/// time, answered nonsense, or runs another problem or on another GPU than the other.
[[nodiscard]] StepComparison compare_steps(const StepProgram& a, const StepProgram& b,
                                           const StepOptions& options);

}  // namespace fovea::lab
