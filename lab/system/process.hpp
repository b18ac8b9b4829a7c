// Runs other programs: compilers, disassemblers, the profiler, candidates and proposers. Each ends,
// together with its descendants, at its time limit, on interruption, and when this program ends.
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
  int exit_code = 0;  // 128 + the signal's number if it was killed
  bool timed_out = false;
  std::string output;
  std::string errors;
};

struct ProcessLimits {
  double max_seconds = 0;  // 0: no limit
  StopFlag stop{};
};

/// Returns the path of a program: on the PATH, next to this program, in build/cuda/bin (where
/// scripts/setup puts CUDA's tools), or in CUDA's own folder. Empty if it is in none of them.
[[nodiscard]] std::string find_program(const std::string& program);

/// Runs a program, given by path or by name, to completion, without a shell and without input. At
/// its time limit it gets SIGTERM, so that it can end its descendants, and SIGKILL a second later.
/// Throws fovea::Error if it cannot be started, and Interrupted, after it has ended, when the user
/// interrupts.
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
  /// Closes the program's input and, unless interrupted, gives it two seconds to save its state. If
  /// it still runs then, it is ended as run_process() does.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends a line. Returns false if the program does not accept it in time, has closed its input,
  /// or has ended; its output can still be read. Throws Interrupted when the user interrupts, as
  /// read_line() does.
  [[nodiscard]] bool write_line(const std::string& line, double max_seconds);
  /// Returns the next line without its terminator. None if the program wrote none in time, ended,
  /// or wrote more than `kMaxLineBytes` bytes without a line break: `why_silent` says which.
  [[nodiscard]] std::optional<std::string> read_line(double max_seconds);
  /// Returns whether more lines may come: the program has neither ended nor closed its output.
  [[nodiscard]] bool is_open() const { return open_; }
  /// Returns why no line came: "did not answer within 5 s", "ended with exit code 1: its last
  /// words".
  [[nodiscard]] const std::string& why_silent() const { return why_silent_; }
  /// Closes the program's input: no more lines will be sent.
  void close_input();

  static constexpr std::size_t kMaxLineBytes = std::size_t{4} << 20;

 private:
  /// Records why it ended, or `otherwise` if it still runs.
  void note_end(const char* otherwise);

  StopFlag stop_;
  TemporaryFile errors_;
  std::unique_ptr<RunningProcess> process_;  // null: it has ended
  io::Descriptor input_;                     // writes to the program's standard input
  io::Descriptor output_;                    // reads from the program's standard output
  std::chrono::steady_clock::time_point input_closed_;
  bool open_ = true;
  std::string pending_;    // data read; the first `taken_` bytes are consumed
  std::size_t taken_ = 0;  // lines that were given out
  std::string why_silent_;
};

}  // namespace fovea::lab
