// Runs other programs: compilers, disassemblers, the profiler, candidates and proposers. Each of
// them is ended, together with its descendants, at its time limit, on interruption, or when this
// program ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/stop.hpp"
#include "io/descriptor.hpp"

namespace fovea::lab {

struct ProcessResult {
  int exit_code = 0;  // 128 plus the number of the signal if the program was killed
  bool timed_out = false;
  std::string output;
  std::string errors;
};

struct ProcessLimits {
  double max_seconds = 0;  // 0: no limit
  StopFlag stop{};
};

/// Returns the path of a program: on the PATH, next to this program, in build/cuda/bin (where
/// scripts/setup puts CUDA's tools), or in CUDA's own folder. Returns "" if it is in none of them.
[[nodiscard]] std::string find_program(const std::string& program);

/// Runs a program, given by path or by name, to completion, without a shell and without input. At
/// its time limit it gets SIGTERM, so that it can end its descendants, and SIGKILL a second later.
/// Throws fovea::Error if it cannot be started, and Interrupted, after the program has ended, if
/// the user interrupts the run.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& arguments,
                                        const ProcessLimits& limits = {});

/// A temporary file with this content, removed in the destructor.
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

/// A temporary folder, removed with its content in the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class RunningProcess;

/// A program that is used interactively: lines go to its standard input and come from its output.
class Child {
 public:
  /// Throws fovea::Error if it cannot be started.
  explicit Child(const std::vector<std::string>& arguments, StopFlag stop = {});
  /// Closes the program's input and, unless interrupted, waits two seconds for the program to save
  /// its state. If it is still running then, ends it as run_process() does.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends a line. Returns false if the program does not read it in time, has closed its input, or
  /// has ended; its output can still be read. Throws Interrupted if the user interrupts, as does
  /// read_line().
  [[nodiscard]] bool write_line(const std::string& line, double max_seconds);
  /// Returns the next line without its terminator. Returns std::nullopt if the program does not
  /// write a line in time, ends, or writes more than kMaxLineBytes bytes without a line break; then
  /// why_silent() returns the reason.
  [[nodiscard]] std::optional<std::string> read_line(double max_seconds);
  /// Returns whether more lines may follow, since the program has neither ended nor closed its
  /// output.
  [[nodiscard]] bool is_open() const { return open_; }
  /// Returns why there is no line: "did not answer within 5 s", or "ended with exit code 1: ...".
  [[nodiscard]] const std::string& why_silent() const { return why_silent_; }
  /// Closes the program's input. No more lines can be sent.
  void close_input();

  static constexpr std::size_t kMaxLineBytes = std::size_t{4} << 20;

 private:
  /// Records how the program ended, or `otherwise` if it is still running.
  void note_end(const char* otherwise);

  StopFlag stop_;
  TemporaryFile errors_;
  std::unique_ptr<RunningProcess> process_;  // null after the program has ended
  io::Descriptor input_;                     // writes to the program's standard input
  io::Descriptor output_;                    // reads from the program's standard output
  std::chrono::steady_clock::time_point input_closed_;
  bool open_ = true;
  std::string pending_;    // data read, including returned lines
  std::size_t taken_ = 0;  // number of bytes of pending_ that were returned
  std::string why_silent_;
};

}  // namespace fovea::lab
