// Runs other programs: compilers, disassemblers, the profiler, candidates and proposers. Each ends,
// with all that it has started, at its limit, when it is to stop, and with this program.
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
  int exit_code = 0;  // 128 + the signal's number when it was killed
  bool timed_out = false;
  std::string output;
  std::string errors;
};

struct ProcessLimits {
  double most_seconds = 0;  // 0: it may take forever
  StopFlag stop{};
};

/// The path of a program of this name: on the PATH, beside this program, in build/cuda/bin (where
/// scripts/setup puts CUDA's tools), or in CUDA's own folder. Empty when it is in none of them.
[[nodiscard]] std::string find_program(const std::string& program);

/// Runs a program, by its path or on the PATH, to its end, without a shell and without input. At
/// its limit it gets SIGTERM, so that it can end what it has started, and SIGKILL a second later.
/// Throws fovea::Error when it cannot be started, and Interrupted, once it is ended, when it is to
/// stop.
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

/// A folder that is removed with the object, and with all that it holds then.
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

/// A program that is talked to in lines, over its standard input and output.
class Child {
 public:
  /// Throws fovea::Error when it cannot be started.
  explicit Child(const std::vector<std::string>& arguments, StopFlag stop = {});
  /// Closes its input and, unless it is to stop, gives it two seconds from then on to save what it
  /// has learnt. What still runs then is ended as run_process() ends it.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends a line. False when the program does not take it within the time, takes no more, or has
  /// ended; what it has written can still be read. Throws Interrupted when it is to stop; so does
  /// read_line().
  [[nodiscard]] bool write_line(const std::string& line, double most_seconds);
  /// The next line, without its end. None when the program wrote none within the time, ended, or
  /// wrote more than `kMaxLine` bytes without an end: `why_silent` says which.
  [[nodiscard]] std::optional<std::string> read_line(double most_seconds);
  /// Whether lines may still come: it has neither ended nor closed its output.
  [[nodiscard]] bool is_open() const { return open_; }
  /// "did not answer within 5 s", "ended with exit code 1: its last words".
  [[nodiscard]] const std::string& why_silent() const { return why_silent_; }
  /// Tells the program that no more lines come.
  void close_input();

  static constexpr std::size_t kMaxLine = std::size_t{4} << 20;

 private:
  /// Keeps why it ended; where it still runs, `otherwise`.
  void note_end(const char* otherwise);

  StopFlag stop_;
  TemporaryFile errors_;
  std::unique_ptr<RunningProcess> process_;  // null: it has ended
  io::Descriptor input_;                     // of the program: written here
  io::Descriptor output_;                    // of the program: read here
  std::chrono::steady_clock::time_point input_closed_;
  bool open_ = true;
  std::string pending_;    // read, of which the first `taken_` bytes are
  std::size_t taken_ = 0;  // lines that were given out
  std::string why_silent_;
};

}  // namespace fovea::lab
