// What `fovea embed` and `fovea preprocess` share: input options, progress on stderr, signals.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "fovea/job.hpp"

namespace fovea::cli {

enum class ProgressStyle : std::uint8_t { kText, kJson, kNone };

/// Options as text, which become numbers or enumerations later.
struct JobArguments {
  std::string shard = "0/1";
  std::string progress = "auto";
  bool quiet = false;
  bool strict = false;
  std::optional<std::uint64_t> max_errors;
  std::uint64_t decode_memory = 0;
};

/// Adds INPUT..., --null, --image-key, --shard, --decode-memory, --strict, --max-errors, --progress
/// and --quiet.
void add_job_options(CLI::App& command, InputOptions& input, JobArguments& arguments);

/// Reads what add_job_options left as text. Throws CLI::ValidationError.
void apply_job_arguments(const JobArguments& arguments, InputOptions& input,
                         std::optional<std::uint64_t>& max_errors);

/// fovea::check_output_name, whose error is one of usage here. Throws CLI::ValidationError.
void check_output_option(const std::string& output, bool only_array);

/// Makes the first SIGINT or SIGTERM end a job softly; the second kills the program.
/// Returns the flag for JobControl::stop.
[[nodiscard]] const std::atomic<bool>* catch_signals();

/// Progress, failed inputs and the summary of one job, on stderr.
class JobReporter {
 public:
  JobReporter(const JobArguments& arguments, std::string errors_file);

  [[nodiscard]] JobControl control();

  /// Prints the summary; returns the exit code.
  [[nodiscard]] int finish(const JobReport& report);

 private:
  void show(const JobProgress& progress);
  void show(const JobFailure& failure);
  void line(const std::string& text, bool stays);

  ProgressStyle style_;
  bool is_terminal_;
  bool quiet_;
  std::string errors_file_;
  std::mutex mutex_;
  bool line_is_open_ = false;
  std::uint64_t failures_shown_ = 0;
};

}  // namespace fovea::cli
