// compare for saved files: finds the figures that differ between two profiles or two bench reports.
#pragma once

#include <string>
#include <vector>

#include "lab/measure/compare.hpp"

namespace fovea::lab {

/// A figure that differs by more than it varies between launches of the same kernel.
struct MovedFigure {
  std::string name;  // "sectors_per_store"; preceded by the kernel's name if the file has several
  double a = 0.0;
  double b = 0.0;
  /// Whether it counts the kernel's work, which is the same in each launch, as opposed to speed and
  /// stalls.
  bool work = false;
};

/// A time that occurs in two bench reports.
struct MovedTime {
  std::string name;  // "gemm_qkv m3136_n2304_k768, plan ..."
  double a = 0.0;    // seconds
  double b = 0.0;
  SpeedVerdict verdict;
};

struct FileComparison {
  Speed speed = Speed::kAmbiguous;     // the worst of `times`
  double ratio = 1.0;                  // geometric mean of the times' ratios
  bool is_profile = false;             // false: a bench report
  std::string machine;                 // the machine of A: a JSON object, or "null"
  std::vector<MovedTime> times;        // those that moved most first
  std::vector<MovedFigure> figures;    // in profiles: work first, then warp stalls
  std::vector<std::string> unmatched;  // "only in A: gemm_out m196_n768_k768"
};

/// Relative differences below this may occur between two runs of one program; smaller ones can only
/// be found by sampling both sides in one run.
inline constexpr double kFilesThreshold = 0.03;

/// Compares two texts, both profiles or both bench reports. `a_name` and `b_name` are for messages.
/// Throws fovea::Error that says what the texts are if they cannot be compared.
[[nodiscard]] FileComparison compare_texts(const std::string& a_name, const std::string& a,
                                           const std::string& b_name, const std::string& b,
                                           double threshold);

}  // namespace fovea::lab
