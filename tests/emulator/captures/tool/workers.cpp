// Kernels in processes of their own, which write to a pipe what comes of each.
#include "emulator/captures/tool/workers.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <stdexcept>

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace captures {
namespace {

void write_all(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(STDOUT_FILENO, at, bytes);
    if (done < 0 && errno != EINTR) {
      throw std::runtime_error("the worker's results cannot be written");
    }
    at += done < 0 ? 0 : done;
    bytes -= done < 0 ? 0 : static_cast<std::size_t>(done);
  }
}

void write_number(std::uint64_t number) {
  write_all(&number, sizeof(number));
}

// One kernel's: its error's length and text, the number of outputs, each with its length.
void write_outcome(const Outcome& outcome) {
  write_number(outcome.error.size());
  write_all(outcome.error.data(), outcome.error.size());
  write_number(outcome.outputs.size());
  for (const Bytes& output : outcome.outputs) {
    write_number(output.size());
    write_all(output.data(), output.size());
  }
}

class Worker {
 public:
  Worker(std::vector<std::string> command, int seconds) : seconds_(seconds) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
      throw std::runtime_error("no pipe to a worker");
    }
    from_ = ends[0];
    posix_spawn_file_actions_t actions{};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    std::vector<char*> arguments;
    for (std::string& argument : command) {
      arguments.push_back(argument.data());
    }
    arguments.push_back(nullptr);
    const int failed =
        ::posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (failed != 0) {
      ::close(from_);
      throw std::runtime_error("no worker could be started");
    }
  }
  ~Worker() {
    ::close(from_);
    ::kill(process_, SIGKILL);
    int status = 0;
    ::waitpid(process_, &status, 0);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // False when the worker has ended before.
  bool read(Outcome& outcome) {
    std::uint64_t size = 0;
    if (!read_number(size)) {
      return false;
    }
    outcome.error.resize(size);
    std::uint64_t outputs = 0;
    if (!read_all(outcome.error.data(), size) || !read_number(outputs)) {
      return false;
    }
    for (std::uint64_t i = 0; i < outputs; ++i) {
      if (!read_number(size)) {
        return false;
      }
      outcome.outputs.emplace_back(size);
      if (!read_all(outcome.outputs.back().data(), size)) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool is_silent() const { return is_silent_; }

 private:
  bool read_number(std::uint64_t& number) { return read_all(&number, sizeof(number)); }
  bool read_all(void* to, std::size_t bytes) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      pollfd waiting{.fd = from_, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&waiting, 1, seconds_ * 1000);
      if (ready == 0) {
        is_silent_ = true;
        return false;
      }
      const ssize_t done = ready < 0 ? -1 : ::read(from_, at, bytes);
      if (done == 0 || (done < 0 && errno != EINTR)) {
        return false;
      }
      at += done < 0 ? 0 : done;
      bytes -= done < 0 ? 0 : static_cast<std::size_t>(done);
    }
    return true;
  }

  int seconds_;
  int from_ = -1;
  pid_t process_ = 0;
  bool is_silent_ = false;
};

}  // namespace

int work(std::size_t first, std::size_t count,
         const std::function<std::vector<Bytes>(std::size_t index)>& run) {
  for (std::size_t index = first; index < count; ++index) {
    Outcome outcome;
    try {
      outcome.outputs = run(index);
    } catch (const std::exception& error) {
      outcome.error = error.what();
    }
    write_outcome(outcome);
    if (!outcome.error.empty()) {
      return 1;
    }
  }
  return 0;
}

void run_workers(const std::vector<std::string>& command, std::size_t count, int seconds,
                 const std::function<void(std::size_t index, Outcome outcome)>& use) {
  std::size_t next = 0;
  while (next < count) {
    std::vector<std::string> arguments = command;
    arguments.push_back(std::to_string(next));
    Worker worker(arguments, seconds);
    while (next < count) {
      Outcome outcome;
      if (!worker.read(outcome)) {
        const std::string error = worker.is_silent()
                                      ? fmt::format("nothing came of it in {} seconds", seconds)
                                      : "the process that ran it ended";
        use(next++, {.outputs = {}, .error = error});
        break;
      }
      const bool has_failed = !outcome.error.empty();
      use(next++, std::move(outcome));
      if (has_failed) {
        break;
      }
    }
  }
}

}  // namespace captures
