// compare for saved files: finds the differing figures in two profiles or two bench reports.
#pragma once

#include <string>
#include <vector>

#include "lab/measure/compare.hpp"

namespace fovea::lab {

/// A figure whose difference exceeds its variation between launches of the same kernel.
struct ChangedFigure {
  std::string name;  // "sectors_per_store", after the kernel's name if the file has several
  double a = 0.0;
  double b = 0.0;
  /// Whether it is an amount of work, which is the same in all launches, as opposed to speed and
  /// stalls.
  bool work = false;
};

/// A time that occurs in two bench reports.
struct ChangedTime {
  std::string name;  // "gemm_qkv m3136_n2304_k768, plan ..."
  double a = 0.0;    // seconds
  double b = 0.0;
  SpeedVerdict verdict;
};

struct FileComparison {
  Speed speed = Speed::kAmbiguous;     // worst verdict in `times`
  double ratio = 1.0;                  // geometric mean of the times' ratios
  bool is_profile = false;             // whether profiles were compared, not bench reports
  std::string machine;                 // the machine of A: a JSON object, or "null"
  std::vector<ChangedTime> times;      // sorted by the amount of change
  std::vector<ChangedFigure> figures;  // only of profiles: work first, then warp stalls
  std::vector<std::string> unmatched;  // "only in A: gemm_out m196_n768_k768"
};

/// Relative differences below this threshold also occur between two runs of the same program. They
/// can only be measured by sampling both sides in one run.
inline constexpr double kFilesThreshold = 0.03;

/// Compares two profiles or two bench reports. `a_name` and `b_name` are their names in messages.
/// Throws fovea::Error if the texts cannot be compared.
[[nodiscard]] FileComparison compare_texts(const std::string& a_name, const std::string& a,
                                           const std::string& b_name, const std::string& b,
                                           double threshold);

}  // namespace fovea::lab
