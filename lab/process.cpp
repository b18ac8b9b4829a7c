// Child processes: run to their end with their output in files, or talked to over pipes. One with a
// time limit leads a group of its own, so that the limit ends what it has started, too; others end
// with this program by the terminal's Ctrl-C.
#include "lab/process.hpp"

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
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.hpp"

extern char** environ;

namespace fovea::lab {
namespace {

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

int milliseconds_to(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count() + 1, 0, 1 << 30));
}

int exit_code_of(int status) {
  constexpr int kSignalled = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

/// While it lives, a reader that has ended does not end this program.
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

/// Whether the file became ready before the deadline. Throws Interrupted when `stop` is set.
bool becomes_ready(int file, short events, Clock::time_point deadline, StopFlag stop) {
  constexpr int kBetweenLooks = 50;  // at the flag; milliseconds
  while (true) {
    stop.poll();
    pollfd ready{.fd = file, .events = events, .revents = 0};
    if (poll(&ready, 1, std::min(milliseconds_to(deadline), kBetweenLooks)) > 0) {
      return true;
    }
    if (Clock::now() >= deadline) {
      return false;
    }
  }
}

/// The file actions and attributes of a child.
class Spawn {
 public:
  explicit Spawn(bool own_group) {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes_);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setpgroup(&attributes_, 0);
    const int flags = POSIX_SPAWN_SETSIGDEF | (own_group ? POSIX_SPAWN_SETPGROUP : 0);
    posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  [[nodiscard]] pid_t start(const std::vector<std::string>& arguments) {
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    pid_t child = 0;
    const int failure = posix_spawnp(&child, argv[0], &actions, &attributes_, argv.data(), environ);
    if (failure != 0) {
      fail("{} cannot be started: {}", arguments.front(), std::strerror(failure));
    }
    return child;
  }

  posix_spawn_file_actions_t actions{};

 private:
  posix_spawnattr_t attributes_{};
};

/// Waits for a child; none when it still runs at the deadline.
std::optional<int> wait_for(pid_t child, std::optional<Clock::time_point> deadline) {
  constexpr auto kMostPause = std::chrono::milliseconds(20);
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, deadline.has_value() ? WNOHANG : 0);
    if (ended == child) {
      return status;
    }
    if (ended < 0 && errno != EINTR) {
      fail("a child process was lost: {}", std::strerror(errno));
    }
    if (deadline.has_value() && ended == 0) {
      if (Clock::now() >= *deadline) {
        return std::nullopt;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kMostPause);
    }
  }
}

}  // namespace

std::string find_program(const std::string& program) {
  namespace fs = std::filesystem;
  const char* const path = std::getenv("PATH");
  std::vector<fs::path> places;
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    places.emplace_back(folder);
  }
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  places.push_back(here);
  places.push_back(here.parent_path().parent_path() / "cuda/bin");  // of build/release/bin
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* const home = std::getenv(variable); home != nullptr && *home != '\0') {
      places.push_back(fs::path(home) / "bin");
    }
  }
  places.emplace_back("/usr/local/cuda/bin");
  for (const fs::path& place : places) {
    const fs::path file = place / program;
    if (!place.empty() && access(file.c_str(), X_OK) == 0) {
      return file.string();
    }
  }
  return "";
}

ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessLimits& limits) {
  const TemporaryFile output({});
  const TemporaryFile errors({});
  Spawn spawn(limits.most_seconds > 0);
  posix_spawn_file_actions_addopen(&spawn.actions, STDOUT_FILENO, output.path().c_str(), O_WRONLY,
                                   0);
  posix_spawn_file_actions_addopen(&spawn.actions, STDERR_FILENO, errors.path().c_str(), O_WRONLY,
                                   0);
  const pid_t child = spawn.start(arguments);
  std::optional<Clock::time_point> deadline;
  if (limits.most_seconds > 0) {
    deadline = after(limits.most_seconds);
  }
  std::optional<int> status = wait_for(child, deadline);
  const bool timed_out = !status.has_value();
  if (timed_out) {
    kill(-child, SIGKILL);
    status = wait_for(child, std::nullopt);
  }
  return {.exit_code = exit_code_of(status.value_or(0)),  // there is one: it has ended
          .timed_out = timed_out,
          .output = read_whole(output.path()),
          .errors = read_whole(errors.path())};
}

TemporaryFile::TemporaryFile(std::span<const std::byte> content) {
  path_ = (std::filesystem::temp_directory_path() / "fovea-XXXXXX").string();
  const int file = mkstemp(path_.data());
  if (file < 0) {
    fail("{} cannot be made: {}", path_, std::strerror(errno));
  }
  const auto size = static_cast<ssize_t>(content.size());
  const bool written = write(file, content.data(), content.size()) == size;
  close(file);
  if (!written) {
    fail("{} cannot be written", path_);
  }
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

Child::Child(const std::vector<std::string>& arguments) : errors_({}), name_(arguments.front()) {
  std::array<int, 2> to{};
  std::array<int, 2> from{};
  if (pipe2(to.data(), O_CLOEXEC) != 0) {
    fail("no pipe can be made: {}", std::strerror(errno));
  }
  if (pipe2(from.data(), O_CLOEXEC) != 0) {
    const int reason = errno;
    close(to[0]);
    close(to[1]);
    fail("no pipe can be made: {}", std::strerror(reason));
  }
  input_ = to[1];
  output_ = from[0];
  try {
    Spawn spawn(true);
    posix_spawn_file_actions_adddup2(&spawn.actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&spawn.actions, from[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&spawn.actions, STDERR_FILENO, errors_.path().c_str(),
                                     O_WRONLY, 0);
    pid_ = spawn.start(arguments);
  } catch (...) {
    for (const int file : {to[0], to[1], from[0], from[1]}) {
      close(file);
    }
    throw;
  }
  close(to[0]);
  close(from[1]);
  fcntl(input_, F_SETFL, O_NONBLOCK);
  fcntl(output_, F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  close_input();
  kill_all();
  close(output_);
}

void Child::kill_all() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    (void)wait_for(std::exchange(pid_, -1), std::nullopt);
  }
}

void Child::close_input() {
  if (input_ >= 0) {
    close(std::exchange(input_, -1));
  }
}

void Child::note_end() {
  open_ = false;
  constexpr std::size_t kLastWords = 600;
  constexpr double kPatience = 2;  // between the end of its output and its own
  std::optional<int> status;
  if (pid_ > 0) {
    status = wait_for(pid_, after(kPatience));
  }
  if (!status.has_value()) {
    why_silent_ = "closed its output";
    return;
  }
  kill(-pid_, SIGKILL);  // what it may have left running
  pid_ = -1;
  std::string words = read_whole(errors_.path());
  words.erase(words.find_last_not_of(" \n") + 1);
  if (words.size() > kLastWords) {
    words = "... " + words.substr(words.size() - kLastWords);
  }
  why_silent_ = fmt::format("ended with exit code {}{}{}", exit_code_of(*status),
                            words.empty() ? "" : ": ", words);
}

bool Child::write_line(const std::string& line, double most_seconds, StopFlag stop) {
  const std::string text = line + '\n';
  const Clock::time_point deadline = after(most_seconds);
  const NoPipeSignal no_signal;
  std::size_t written = 0;
  while (written < text.size() && input_ >= 0) {
    const ssize_t count = write(input_, text.data() + written, text.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && errno != EAGAIN) {
      note_end();
      break;
    }
    if (!becomes_ready(input_, POLLOUT, deadline, stop)) {
      why_silent_ = fmt::format("took no line within {:g} s", most_seconds);
      break;
    }
  }
  return written == text.size();
}

std::optional<std::string> Child::read_line(double most_seconds, StopFlag stop) {
  const Clock::time_point deadline = after(most_seconds);
  std::array<char, 65536> buffer{};
  while (true) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    if (pending_.size() > kMostLine) {
      why_silent_ = fmt::format("wrote a line of more than {} MiB", kMostLine >> 20);
      open_ = false;
      return std::nullopt;
    }
    const ssize_t count = ::read(output_, buffer.data(), buffer.size());
    if (count > 0) {
      pending_.append(buffer.data(), static_cast<std::size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count == 0 || errno != EAGAIN) {
      note_end();
      return std::nullopt;
    }
    if (!becomes_ready(output_, POLLIN, deadline, stop)) {
      why_silent_ = fmt::format("did not answer within {:g} s", most_seconds);
      return std::nullopt;
    }
  }
}

}  // namespace fovea::lab
