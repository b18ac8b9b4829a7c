// The C library's calls, replaced in this program.
#include "killing_calls.hpp"

#include <atomic>
#include <exception>
#include <iostream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fovea::collection::testing {
namespace {

constexpr int kKilled = 77;
constexpr int kFailed = 78;
std::atomic<int> calls_left = -1;  // negative: nothing is counted

// Ends the process as a kill does: at once, without _exit, for which a sanitizer
// stands in and complains of threads that nobody has joined.
[[noreturn]] void end_process(int status) {
  ::syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

void count_call() {
  if (calls_left >= 0 && calls_left-- == 0) {
    end_process(kKilled);
  }
}

}  // namespace

bool is_killed_at(int call, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    calls_left = call;
    try {
      body();
    } catch (const std::exception& error) {
      std::cerr << error.what() << '\n';
      end_process(kFailed);
    }
    end_process(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kKilled))
      << status;
  return WIFEXITED(status) && WEXITSTATUS(status) == kKilled;
}

}  // namespace fovea::collection::testing

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  fovea::collection::testing::count_call();
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}

extern "C" int unlinkat(int folder, const char* name, int flags) noexcept {
  fovea::collection::testing::count_call();
  return static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
}

extern "C" int mkdirat(int folder, const char* name, mode_t mode) noexcept {
  fovea::collection::testing::count_call();
  return static_cast<int>(::syscall(SYS_mkdirat, folder, name, mode));
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
