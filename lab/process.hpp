// Runs other programs: compilers, disassemblers, the profiler, candidates and proposers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/stop.hpp"

namespace fovea::lab {

struct ProcessResult {
  int exit_code = 0;  // 128 + the signal's number when it was killed
  bool timed_out = false;
  std::string output;
  std::string errors;
};

struct ProcessLimits {
  double most_seconds = 0;  // then it is killed, with what it has started; 0: it may take forever
};

/// The path of a program of this name: on the PATH, beside this program, in build/cuda/bin (where
/// scripts/setup puts CUDA's tools), or in CUDA's own folder. Empty when it is in none of them.
[[nodiscard]] std::string find_program(const std::string& program);

/// Runs a program, by its path or on the PATH, to its end, without a shell. Throws fovea::Error
/// when it cannot be started.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& arguments,
                                        const ProcessLimits& limits = {});

/// A file with this content, removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::span<const std::byte> content);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A program that is talked to in lines, over its standard input and output.
class Child {
 public:
  /// Throws fovea::Error when it cannot be started.
  explicit Child(const std::vector<std::string>& arguments);
  /// Kills it, and what it has started, when it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends a line. False when the program does not take it within the time or has ended. Throws
  /// Interrupted when `stop` is set meanwhile; so does read_line().
  [[nodiscard]] bool write_line(const std::string& line, double most_seconds, StopFlag stop = {});
  /// The next line, without its end. None when the program wrote none within the time, ended, or
  /// wrote more than `kMostLine` bytes without an end: `why_silent` says which.
  [[nodiscard]] std::optional<std::string> read_line(double most_seconds, StopFlag stop = {});
  /// Whether lines may still come: it has neither ended nor closed its output.
  [[nodiscard]] bool is_open() const { return open_; }
  /// "did not answer within 5 s", "ended with exit code 1: its last words".
  [[nodiscard]] const std::string& why_silent() const { return why_silent_; }
  /// Tells the program that no more lines come.
  void close_input();

  static constexpr std::size_t kMostLine = std::size_t{4} << 20;

 private:
  void note_end();
  void kill_all();

  TemporaryFile errors_;
  std::string name_;
  pid_t pid_ = -1;
  int input_ = -1;   // of the program: written here
  int output_ = -1;  // of the program: read here
  bool open_ = true;
  std::string pending_;
  std::string why_silent_;
};

}  // namespace fovea::lab
