// compare: decides which of two sides is faster, from alternating samples of both.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::lab {

/// The speed of B relative to A.
enum class Speed : std::uint8_t { kSame, kFaster, kSlower, kAmbiguous };
/// Returns the name in capitals: "SLOWER".
[[nodiscard]] std::string_view to_string(Speed speed);

/// Relative differences up to this threshold count as equal.
inline constexpr double kSamplesThreshold = 0.01;

/// Times of A and B in seconds, measured one right after the other.
struct SamplePair {
  double a = 0.0;
  double b = 0.0;
};

struct SpeedVerdict {
  Speed speed = Speed::kAmbiguous;
  double ratio = 1.0;  // B's time over A's: above 1, B is slower
  double low = 0.0;    // confidence interval of the ratio: from `low` to `high`
  double high = 0.0;
};

/// Returns FASTER or SLOWER if the whole interval of a ratio is beyond the threshold, SAME if it is
/// within, else AMBIGUOUS.
[[nodiscard]] Speed judge_interval(double low, double high, double threshold);

/// Returns the median of the pairs' ratios, and an interval that contains the true median with
/// 99.9% confidence for any distribution, at each of up to eleven evaluations. Slow drift affects
/// both samples of a pair, and outliers in fewer than half of the pairs do not move the median.
/// AMBIGUOUS if there are too few pairs, or if a time is not a number.
[[nodiscard]] SpeedVerdict judge_pairs(std::span<const SamplePair> pairs, double threshold);

/// Number of pairs to take.
struct PairsWanted {
  double threshold = kSamplesThreshold;
  int first = 16;  // pairs before the first evaluation
  int more = 8;    // pairs between evaluations, while the verdict is AMBIGUOUS
  int limit = 96;
};

struct JudgedPairs {
  SpeedVerdict verdict;
  int pairs = 0;
  int dropped = 0;
};

/// Takes pairs until the verdict is clear or the maximum is reached. `next` returns none if the GPU
/// was throttled. Throws fovea::Error if that happened as often as pairs may be taken.
[[nodiscard]] JudgedPairs judge_until_clear(const PairsWanted& wanted,
                                            const std::function<std::optional<SamplePair>()>& next);

/// A program that follows the step protocol (lab/measure/steps.hpp).
struct StepProgram {
  std::string what;  // "this program, level wmma"
  std::vector<std::string> command;
};

struct StepOptions {
  PairsWanted wanted{};
  int pairs_per_start = 8;  // then both programs are restarted, so that their tensors have other
                            // addresses
  std::uint64_t seed = 1;   // decides at random which side goes first
  double ready_seconds = 300;
  double sample_seconds = 60;
};

/// One side of a comparison.
struct StepSide {
  std::string ready;     // its description of itself: a JSON object
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

/// Samples two programs on one GPU alternately, never in parallel, until the verdict is clear or
/// the limit is reached. Throws fovea::Error that names the side that did not start, did not answer
/// in time, sent an invalid answer, or runs another problem or on another GPU than the other side.
[[nodiscard]] StepComparison compare_steps(const StepProgram& a, const StepProgram& b,
                                           const StepOptions& options);

}  // namespace fovea::lab
