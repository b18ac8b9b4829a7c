// compare: determines from alternating samples which of two sides is faster.
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

/// Times with a relative difference up to this threshold are considered equal.
inline constexpr double kSamplesThreshold = 0.01;

/// Times of A and B in seconds, measured one right after the other.
struct SamplePair {
  double a = 0.0;
  double b = 0.0;
};

struct SpeedVerdict {
  Speed speed = Speed::kAmbiguous;
  double ratio = 1.0;  // B's time divided by A's; above 1 if B is slower
  double low = 0.0;    // bounds of the ratio's confidence interval
  double high = 0.0;
};

/// Returns FASTER or SLOWER if the whole interval of a ratio is beyond the threshold, SAME if it is
/// within, else AMBIGUOUS.
[[nodiscard]] Speed judge_interval(double low, double high, double threshold);

/// Returns the median of the pairs' ratios, and an interval that contains the true median with
/// 99.9% confidence for any distribution, at each of up to eleven evaluations. Slow drift affects
/// both samples of a pair alike, and outliers in fewer than half of the pairs do not move the
/// median. The verdict is AMBIGUOUS if there are too few pairs or if a time is not a number.
[[nodiscard]] SpeedVerdict judge_pairs(std::span<const SamplePair> pairs, double threshold);

/// The numbers of pairs to take.
struct PairLimits {
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

/// Takes pairs until the verdict is clear or the limit is reached. `next` returns std::nullopt if
/// the GPU was throttled. Throws fovea::Error if the number of such pairs also reaches the limit.
[[nodiscard]] JudgedPairs judge_until_clear(const PairLimits& pair_limits,
                                            const std::function<std::optional<SamplePair>()>& next);

/// A program that follows the step protocol (lab/measure/steps.hpp).
struct StepProgram {
  std::string what;  // "this program, level wmma"
  std::vector<std::string> command;
};

struct StepOptions {
  PairLimits pair_limits{};
  int pairs_per_start = 8;  // number of pairs before both programs are restarted, which changes the
                            // addresses of their tensors
  std::uint64_t seed = 1;   // of the random choice of the side that goes first
  double ready_seconds = 300;
  double sample_seconds = 60;
};

/// One side of a comparison.
struct StepSide {
  std::string ready;     // description by the program: a JSON object
  double seconds = 0.0;  // median of the samples
  double spread = 0.0;   // from the 10th to the 90th percentile, seconds
  int sm_mhz = 0;        // median of the samples
  double watts = 0.0;    // median of the samples
};

struct StepComparison {
  JudgedPairs judged;
  StepSide a;
  StepSide b;
};

/// Samples two programs on one GPU alternately, never in parallel, until the verdict is clear or
/// the limit is reached. Throws fovea::Error, which names the side, if a program does not start,
/// does not answer in time or sends an invalid answer, or if the sides run different problems or
/// use different GPUs.
[[nodiscard]] StepComparison compare_steps(const StepProgram& a, const StepProgram& b,
                                           const StepOptions& options);

}  // namespace fovea::lab
