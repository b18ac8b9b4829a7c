// Child processes with their output in files, so that neither side waits for a full pipe.
#include "lab/process.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fcntl.h>
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

ProcessResult run_process(const std::vector<std::string>& arguments) {
  const TemporaryFile output({});
  const TemporaryFile errors({});
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.path().c_str(), O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.path().c_str(), O_WRONLY, 0);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    fail("{} cannot be started: {}", arguments.front(), std::strerror(failure));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      fail("{} was lost: {}", arguments.front(), std::strerror(errno));
    }
  }
  constexpr int kSignalled = 128;
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status),
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

}  // namespace fovea::lab
