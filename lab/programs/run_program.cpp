// A whole program in the emulator: it is started with the library in the place of CUDA's.
#include "lab/programs/run_program.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/descriptor.hpp"
#include "io/text.hpp"

namespace fovea::programs {
namespace {

// An empty file, removed at the end.
class TemporaryFile {
 public:
  TemporaryFile() : path_((std::filesystem::temp_directory_path() / "fovea-XXXXXX").native()) {
    if (io::Descriptor(mkstemp(path_.data())).get() < 0) {
      fail("cannot create a temporary file {}: {}", path_, std::strerror(errno));
    }
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Returns the folder of the libraries that stand in the place of CUDA's.
std::filesystem::path library_folder() {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::istringstream folders(FOVEA_CUDA_FOLDERS);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (std::filesystem::exists(here / folder / "libfovea_cuda.so")) {
      return std::filesystem::canonical(here / folder);
    }
  }
  fail("cannot find libfovea_cuda.so, which is installed with the program, in {} below {}",
       FOVEA_CUDA_FOLDERS, here.native());
}

// Returns "NAME=first:the value that it has".
std::string put_first(const std::string& name, const std::string& first) {
  const char* const value = std::getenv(name.c_str());
  const std::string rest = value == nullptr || *value == '\0' ? "" : ":" + std::string(value);
  return name + "=" + first + rest;
}

std::vector<std::string> environment_for(const Settings& settings) {
  const std::filesystem::path folder = library_folder();
  std::vector<std::string> variables = {
      // Before all others, so that a path within the program does not lead to NVIDIA's libraries.
      put_first("LD_PRELOAD", (folder / "libfovea_cuda.so").native()),
      put_first("LD_LIBRARY_PATH", folder.native()),
      std::string(kSettingsVariable) + "=" + to_text(settings)};
  const std::size_t changed = variables.size();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool is_replaced = false;
    for (std::size_t i = 0; i < changed; ++i) {
      is_replaced = is_replaced || variables[i].starts_with(name);
    }
    if (!is_replaced) {
      variables.push_back(text);
    }
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Ignores interruptions from the terminal, which reach the program as well, while it lives.
class IgnoredInterrupts {
 public:
  IgnoredInterrupts() {
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;  // NOLINT(*-cstyle-cast,*-no-int-to-ptr): the system's macro
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals.at(i), &ignore, &before_.at(i));
    }
  }
  ~IgnoredInterrupts() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals.at(i), &before_.at(i), nullptr);
    }
  }
  IgnoredInterrupts(const IgnoredInterrupts&) = delete;
  IgnoredInterrupts& operator=(const IgnoredInterrupts&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> before_{};
};

int run_to_end(std::vector<std::string> arguments, std::vector<std::string> environment) {
  posix_spawnattr_t attributes{};
  sigset_t defaults{};
  sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGQUIT, SIGPIPE}) {
    sigaddset(&defaults, signal);
  }
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const std::vector<char*> words = pointers_to(arguments);
  const std::vector<char*> variables = pointers_to(environment);
  const IgnoredInterrupts ignored;
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, words.front(), nullptr, &attributes, words.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    fail("cannot start {}: {}", io::printable(arguments.front()), std::strerror(error));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  constexpr int kSignalled = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments, Settings settings) {
  const TemporaryFile journal;
  settings.journal = journal.path();
  ProgramResult result;
  result.exit_code = run_to_end(arguments, environment_for(settings));
  result.summary = read_journal(journal.path());
  return result;
}

}  // namespace fovea::programs
