// compare of saved files: which figures of two profiles or of two bench reports differ.
#pragma once

#include <string>
#include <vector>

#include "lab/measure/compare.hpp"

namespace fovea::lab {

/// A figure that differs by more than it does between two launches of the same kernel.
struct MovedFigure {
  std::string name;  // "sectors_per_store"; behind the kernel's name where a file has several
  double a = 0.0;
  double b = 0.0;
  /// Whether it counts what the kernel does, the same at each launch, and not how fast it went and
  /// for what it waited.
  bool work = false;
};

/// A time in two bench reports.
struct MovedTime {
  std::string name;  // "gemm_qkv m3136_n2304_k768, plan ..."
  double a = 0.0;    // seconds
  double b = 0.0;
  SpeedVerdict verdict;
};

struct FileComparison {
  Speed speed = Speed::kAmbiguous;     // the worst of `times`
  double ratio = 1.0;                  // of the times, their geometric mean
  bool is_profile = false;             // else a bench report
  std::string machine;                 // of A: a JSON object, or "null"
  std::vector<MovedTime> times;        // those that moved most first
  std::vector<MovedFigure> figures;    // of profiles: work first, then what warps wait for
  std::vector<std::string> unmatched;  // "only in A: gemm_out m196_n768_k768"
};

/// Between two runs of a program; less is found only by sampling both sides in one run.
inline constexpr double kFilesThreshold = 0.03;

/// Compares two texts, both profiles or both bench reports. `a_name` and `b_name` are for messages.
/// Throws fovea::Error that says what the texts are when they cannot be compared.
[[nodiscard]] FileComparison compare_texts(const std::string& a_name, const std::string& a,
                                           const std::string& b_name, const std::string& b,
                                           double threshold);

}  // namespace fovea::lab
