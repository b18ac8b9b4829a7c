// Runs child processes, either to completion with their output in files, or interactively over
// pipes. Each child has a process group, which also contains its descendants, so that all of them
// can be killed together.
#include "lab/system/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/write_all.hpp"

extern char** environ;

namespace fovea::lab {
namespace {

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the absolute folders in the PATH. Relative ones are ignored, since the working directory
/// may contain untrusted files.
std::vector<std::filesystem::path> folders_of_path() {
  const char* const path = std::getenv("PATH");
  std::vector<std::filesystem::path> folders;
  std::istringstream words(path == nullptr ? "" : path);
  for (std::string folder; std::getline(words, folder, ':');) {
    folders.emplace_back(folder);
  }
  std::erase_if(folders, [](const auto& folder) { return !folder.is_absolute(); });
  return folders;
}

/// Returns the path of the first program with this name; "" if there is none.
std::string first_program(const std::vector<std::filesystem::path>& folders,
                          const std::string& name) {
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path file = folder / name;
    if (!folder.empty() && access(file.c_str(), X_OK) == 0) {
      return file.string();
    }
  }
  return "";
}

using Clock = std::chrono::steady_clock;

Clock::time_point later(Clock::time_point from, double seconds) {
  return from + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Clock::time_point after(double seconds) {
  return later(Clock::now(), seconds);
}

int milliseconds_to(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count() + 1, 0, 1 << 30));
}

int to_exit_code(int status) {
  constexpr int kSignalled = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

/// Ignores SIGPIPE during its lifetime, so that writing to a closed pipe is an error and does not
/// end this program.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~NoPipeSignal() { sigaction(SIGPIPE, &before_, nullptr); }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  struct sigaction before_{};
};

/// Returns whether the file became ready before the deadline. Throws Interrupted if `stop` is set.
bool becomes_ready(int file, short events, Clock::time_point deadline, StopFlag stop) {
  constexpr int kPollMilliseconds = 50;  // interval at which the flag is checked, in milliseconds
  while (true) {
    stop.poll();
    pollfd ready{.fd = file, .events = events, .revents = 0};
    if (poll(&ready, 1, std::min(milliseconds_to(deadline), kPollMilliseconds)) > 0) {
      return true;
    }
    if (Clock::now() >= deadline) {
      return false;
    }
  }
}

struct Pipe {
  io::Descriptor read;
  io::Descriptor write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail("cannot create a pipe: {}", std::strerror(errno));
  }
  return {io::Descriptor(ends[0]), io::Descriptor(ends[1])};
}

/// Parameters for starting a child.
class Spawn {
 public:
  Spawn() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  /// Redirects one of the child's standard files.
  void redirect(int file, const io::Descriptor& to) {
    posix_spawn_file_actions_adddup2(&actions_, to.get(), file);
  }
  void redirect(int file, const char* path) {
    const int flags = file == STDIN_FILENO ? O_RDONLY : O_WRONLY;
    posix_spawn_file_actions_addopen(&actions_, file, path, flags, 0);
  }

  [[nodiscard]] pid_t start(const std::vector<std::string>& arguments, pid_t group) {
    posix_spawnattr_setpgroup(&attributes_, group);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    const std::string& name = arguments.front();
    const std::string program =
        name.find('/') != std::string::npos ? name : first_program(folders_of_path(), name);
    pid_t child = 0;
    const int failure =
        posix_spawn(&child, program.c_str(), &actions_, &attributes_, argv.data(), environ);
    if (failure != 0) {
      fail("cannot start {}: {}", arguments.front(), std::strerror(failure));
    }
    return child;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

/// A process group that is killed when this object is destroyed or this program ends, even by
/// SIGKILL. The group's leader is a fork of this process that waits on a pipe whose other end is
/// held only by this program, and kills the group when the pipe closes. The signal set with
/// prctl(PR_SET_PDEATHSIG) would only reach the child itself, not its descendants, and would be
/// sent as soon as the thread that started the child ends.
class ProcessGroup {
 public:
  ProcessGroup() {
    Pipe lifetime_pipe = make_pipe();
    leader_ = fork();
    if (leader_ < 0) {
      fail("cannot start a process: {}", std::strerror(errno));
    }
    if (leader_ == 0) {
      run_leader(lifetime_pipe.read.get());
    }
    setpgid(leader_, leader_);  // called by the leader, too, since either process may run first
    lifetime_pipe_ = std::move(lifetime_pipe.write);
  }
  ~ProcessGroup() {
    send(SIGKILL);
    while (waitpid(leader_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  void send(int signal) const { kill(-leader_, signal); }
  [[nodiscard]] pid_t leader() const { return leader_; }

 private:
  // Upper bound for file descriptors if close_range(2) is not available.
  static constexpr int kMaxFiles = 1 << 16;

  /// Runs in the forked process, where only async-signal-safe functions may be called.
  [[noreturn]] static void run_leader(int lifetime_pipe) {
    setpgid(0, 0);
    for (const int ignored : {SIGHUP, SIGINT, SIGTERM}) {
      (void)signal(ignored, SIG_IGN);
    }
    dup2(lifetime_pipe, STDIN_FILENO);
    // Closes this program's files in the leader, in particular the other end of the pipe.
    if (close_range(STDOUT_FILENO, ~0U, 0) != 0) {
      for (int file = STDOUT_FILENO; file < kMaxFiles; ++file) {
        close(file);
      }
    }
    char nothing = 0;
    while (::read(STDIN_FILENO, &nothing, 1) < 0 && errno == EINTR) {
    }
    kill(0, SIGKILL);
    _exit(0);
  }

  pid_t leader_ = 0;  // id of the process group, valid until waitpid() for the leader
  io::Descriptor lifetime_pipe_;
};

/// A program with its descendants.
class RunningProcess {
 public:
  RunningProcess(Spawn& spawn, const std::vector<std::string>& arguments)
      : name_(arguments.front()), pid_(spawn.start(arguments, group_.leader())) {}
  ~RunningProcess() {
    try {
      (void)(status_.has_value() ? *status_ : end());
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a lost child's group is killed anyway
    }
  }
  RunningProcess(const RunningProcess&) = delete;
  RunningProcess& operator=(const RunningProcess&) = delete;

  /// Returns the exit status, or std::nullopt if the program is still running at the deadline.
  /// Throws Interrupted if `stop` is set.
  std::optional<int> wait(std::optional<Clock::time_point> deadline, StopFlag stop) {
    constexpr Clock::duration kMinPause = std::chrono::milliseconds(1);
    constexpr Clock::duration kMaxPause = std::chrono::milliseconds(20);
    constexpr int kShare = 16;  // pauses are this fraction of the elapsed time
    const Clock::time_point begin = Clock::now();
    while (!has_ended()) {
      stop.poll();
      const Clock::time_point now = Clock::now();
      if (deadline.has_value() && now >= *deadline) {
        return std::nullopt;
      }
      std::this_thread::sleep_for(std::clamp((now - begin) / kShare, kMinPause, kMaxPause));
    }
    return status_;
  }

  /// Sends SIGTERM to all processes of the group and, if the program is still running after a
  /// second, SIGKILL. Returns the program's status.
  int end() {
    constexpr double kGraceSeconds = 1;
    group_.send(SIGTERM);
    if (!wait(after(kGraceSeconds), {}).has_value()) {
      group_.send(SIGKILL);
      (void)wait(std::nullopt, {});
    }
    return status_.value_or(0);  // always set here
  }

 private:
  bool has_ended() {
    while (!status_.has_value()) {
      int status = 0;
      const pid_t ended = waitpid(pid_, &status, WNOHANG);
      if (ended == 0) {
        return false;
      }
      if (ended == pid_) {
        status_ = status;
      } else if (errno != EINTR) {
        fail("{} was lost: {}", name_, std::strerror(errno));
      }
    }
    return true;
  }

  std::string name_;
  ProcessGroup group_;
  pid_t pid_;
  std::optional<int> status_;
};

std::string find_program(const std::string& program) {
  namespace fs = std::filesystem;
  std::vector<fs::path> places = folders_of_path();
  std::error_code ignored;
  const fs::path program_folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  places.push_back(program_folder);
  places.push_back(program_folder.parent_path().parent_path() /
                   "cuda/bin");  // from build/release/bin
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* const home = std::getenv(variable); home != nullptr && *home != '\0') {
      places.push_back(fs::path(home) / "bin");
    }
  }
  places.emplace_back("/usr/local/cuda/bin");
  return first_program(places, program);
}

ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessLimits& limits) {
  limits.stop.poll();
  const TemporaryFile output({});
  const TemporaryFile errors({});
  Spawn spawn;
  // The standard input of this program may be a terminal or contain lines of a protocol.
  spawn.redirect(STDIN_FILENO, "/dev/null");
  spawn.redirect(STDOUT_FILENO, output.path().c_str());
  spawn.redirect(STDERR_FILENO, errors.path().c_str());
  RunningProcess process(spawn, arguments);
  std::optional<Clock::time_point> deadline;
  if (limits.max_seconds > 0) {
    deadline = after(limits.max_seconds);
  }
  const std::optional<int> status = process.wait(deadline, limits.stop);
  return {.exit_code = to_exit_code(status.has_value() ? *status : process.end()),
          .timed_out = !status.has_value(),
          .output = read_whole(output.path()),
          .errors = read_whole(errors.path())};
}

TemporaryFile::TemporaryFile(std::span<const std::byte> content)
    : path_((std::filesystem::temp_directory_path() / "fovea-XXXXXX").string()) {
  const io::Descriptor file(mkostemp(path_.data(), O_CLOEXEC));
  if (!file.open()) {
    fail("{} cannot be made: {}", path_, std::strerror(errno));
  }
  try {
    io::write_all(file.get(), content, path_);
  } catch (const Error&) {
    unlink(path_.c_str());
    throw;
  }
}

TemporaryFile::~TemporaryFile() {
  unlink(path_.c_str());
}

TemporaryFolder::TemporaryFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "fovea-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    fail("{} cannot be made: {}", path, std::strerror(errno));
  }
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Child::Child(const std::vector<std::string>& arguments, StopFlag stop) : stop_(stop), errors_({}) {
  Pipe to = make_pipe();
  Pipe from = make_pipe();
  Spawn spawn;
  spawn.redirect(STDIN_FILENO, to.read);
  spawn.redirect(STDOUT_FILENO, from.write);
  spawn.redirect(STDERR_FILENO, errors_.path().c_str());
  process_ = std::make_unique<RunningProcess>(spawn, arguments);
  input_ = std::move(to.write);
  output_ = std::move(from.read);
  fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  constexpr double kExitSeconds = 2;  // time limit in seconds for the child to end voluntarily
  close_input();
  if (process_ != nullptr) {
    try {
      (void)process_->wait(later(input_closed_, kExitSeconds), stop_);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): ~RunningProcess() ends the child
    }
  }
}

void Child::close_input() {
  if (input_.open()) {
    input_.reset();
    input_closed_ = Clock::now();
  }
}

void Child::note_end(const char* otherwise) {
  constexpr std::size_t kMaxErrorChars = 600;
  constexpr double kExitSeconds = 2;  // seconds allowed between closing the output and exiting
  if (process_ == nullptr) {
    return;  // the reason is known
  }
  const std::optional<int> status = process_->wait(after(kExitSeconds), stop_);
  if (!status.has_value()) {
    why_silent_ = otherwise;
    return;
  }
  process_.reset();  // also ends remaining descendants
  std::string words = read_whole(errors_.path());
  words.erase(words.find_last_not_of(" \n") + 1);
  if (words.size() > kMaxErrorChars) {
    words = "... " + words.substr(words.size() - kMaxErrorChars);
  }
  why_silent_ = fmt::format("ended with exit code {}{}{}", to_exit_code(*status),
                            words.empty() ? "" : ": ", words);
}

bool Child::write_line(const std::string& line, double max_seconds) {
  const std::string text = line + '\n';
  const Clock::time_point deadline = after(max_seconds);
  const NoPipeSignal no_signal;
  std::size_t written = 0;
  while (written < text.size() && input_.open()) {
    const ssize_t count = write(input_.get(), text.data() + written, text.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && errno != EAGAIN) {
      note_end("has closed its input");
      break;
    }
    if (!becomes_ready(input_.get(), POLLOUT, deadline, stop_)) {
      why_silent_ = fmt::format("did not read a line within {:g} s", max_seconds);
      break;
    }
  }
  return written == text.size();
}

std::optional<std::string> Child::read_line(double max_seconds) {
  const Clock::time_point deadline = after(max_seconds);
  stop_.poll();  // needed here, since lines may arrive without a pause
  while (true) {
    if (const std::size_t end = pending_.find('\n', taken_); end != std::string::npos) {
      std::string line = pending_.substr(taken_, end - taken_);
      taken_ = end + 1;
      return line;
    }
    pending_.erase(0, std::exchange(taken_, 0));  // removes all returned lines at once
    if (pending_.size() > kMaxLineBytes) {
      why_silent_ = fmt::format("wrote a line of more than {} MiB", kMaxLineBytes >> 20);
      open_ = false;
      return std::nullopt;
    }
    std::array<char, 65536> buffer{};
    const ssize_t count = ::read(output_.get(), buffer.data(), buffer.size());
    if (count > 0) {
      pending_.append(buffer.data(), static_cast<std::size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count == 0 || errno != EAGAIN) {
      open_ = false;
      note_end("closed its output");
      return std::nullopt;
    }
    if (!becomes_ready(output_.get(), POLLIN, deadline, stop_)) {
      why_silent_ = fmt::format("did not answer within {:g} s", max_seconds);
      return std::nullopt;
    }
  }
}

}  // namespace fovea::lab
