// What `fovea embed` and `fovea preprocess` share: input options, progress on stderr, signals.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "cli/commands.hpp"
#include "cli/job_options.hpp"
#include "cli/progress_line.hpp"
#include "fovea/job.hpp"

namespace fovea::cli {

/// While it lives, the first SIGINT or SIGTERM asks for a soft end and says so; the second kills
/// the program.
class Interruption {
 public:
  Interruption();
  ~Interruption() { end(); }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Afterwards no more is said; what a signal asked for before has been.
  void end();

  /// The flag that JobControl::stop is to be.
  [[nodiscard]] static const std::atomic<bool>* flag();

 private:
  std::atomic<bool> ended_ = false;
  std::thread messenger_;  // a signal handler may not print in the middle of another line
};

/// Progress, failed inputs and the summary of one job, on stderr.
class JobReporter {
 public:
  /// A job that writes no files has neither of the two names; all of its failures are shown.
  /// `noun`: what a row is of.
  JobReporter(const JobArguments& arguments, std::string output, std::string errors_file,
              std::string noun = "image");

  [[nodiscard]] JobControl control();

  /// Prints the summary; returns the exit code.
  [[nodiscard]] int finish(const JobReport& report);

 private:
  void show(const JobProgress& progress);
  void show(const JobFailure& failure);
  [[nodiscard]] std::string summary(const JobReport& report) const;
  /// ", 3 failed (see OUT/errors.jsonl)" or nothing.
  [[nodiscard]] std::string failed_inputs(const JobReport& report) const;
  [[nodiscard]] bool writes_one_file() const { return output_.ends_with(".npy"); }

  std::string output_;
  std::string errors_file_;
  std::string noun_;
  ProgressLine line_;
  std::uint64_t failures_shown_ = 0;
  Interruption interruption_;
};

}  // namespace fovea::cli
