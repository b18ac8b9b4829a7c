// Where the tools of CUDA are looked for; how programs end, and those that are talked to.
#include "lab/system/process.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.hpp"
#include "lab/process_ends.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;

TEST(FindProgram, LooksOnThePathThenBesideTheProgramThenInCuda) {
  std::string pattern = (fs::path(testing::TempDir()) / "fovea-cuda-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const fs::path home = pattern;
  const fs::path tool = home / "bin" / "fovea-no-such-tool";
  fs::create_directories(tool.parent_path());
  std::ofstream(tool) << "#!/bin/sh\n";
  fs::permissions(tool, fs::perms::owner_all);
  EXPECT_EQ(find_program("fovea-no-such-tool"), "");
  ::setenv("CUDA_HOME", home.c_str(), 1);
  EXPECT_EQ(find_program("fovea-no-such-tool"), tool.string());
  ::unsetenv("CUDA_HOME");
  fs::remove_all(home);
  const fs::path self = fs::read_symlink("/proc/self/exe");
  EXPECT_EQ(find_program(self.filename()), self.string());
  EXPECT_NE(find_program("sh"), "");
}

TEST(RunProcess, GivesOutputErrorsAndExitCode) {
  const ProcessResult result = run_process({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(run_process({"sh", "-c", "kill -TERM $$"}).exit_code, 128 + SIGTERM);
  EXPECT_THROW((void)run_process({"/no/such/program"}), Error);
}

TEST(RunProcess, ATimeLimitEndsAProgramAndWhatItHasStarted) {
  const TemporaryFile file({});
  const std::string script = "echo begun; sleep 600 & echo $! > " + file.path() + "; wait";
  const ProcessResult result = run_process({"sh", "-c", script}, {.max_seconds = 0.5});
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_EQ(result.output, "begun\n");
  EXPECT_TRUE(process_ends(first_line(file.path())));
  EXPECT_FALSE(run_process({"true"}, {.max_seconds = 60}).timed_out);
}

TEST(RunProcess, ATimeLimitLetsAProgramEndWhatItHasStarted) {
  const ProcessResult polite =
      run_process({"sh", "-c", "trap 'echo ended; exit 7' TERM; while true; do sleep 0.05; done"},
                  {.max_seconds = 0.5});
  EXPECT_TRUE(polite.timed_out);
  EXPECT_EQ(polite.exit_code, 7);
  EXPECT_EQ(polite.output, "ended\n");
  const ProcessResult stubborn = run_process(
      {"sh", "-c", "trap '' TERM; while true; do sleep 0.05; done"}, {.max_seconds = 0.1});
  EXPECT_TRUE(stubborn.timed_out);
  EXPECT_EQ(stubborn.exit_code, 128 + SIGKILL);
}

TEST(RunProcess, LeavesNothingRunningWhenItEnds) {
  const ProcessResult result = run_process({"sh", "-c", "sleep 600 & echo $!"});
  EXPECT_TRUE(process_ends(result.output.substr(0, result.output.find('\n'))));
}

TEST(RunProcess, StopsWhenItsFlagIsSet) {
  const TemporaryFile file({});
  const std::string script = "sleep 600 & echo $! > " + file.path() + "; wait";
  std::atomic<bool> stop = false;
  std::string sleeper;
  std::thread setter([&] {
    sleeper = first_line(file.path());
    stop = true;
  });
  EXPECT_THROW((void)run_process({"sh", "-c", script}, {.stop = &stop}), Interrupted);
  setter.join();
  EXPECT_TRUE(process_ends(sleeper));
  // Nothing is started any more.
  EXPECT_THROW((void)run_process({"rm", file.path()}, {.stop = &stop}), Interrupted);
  EXPECT_TRUE(fs::exists(file.path()));
}

TEST(RunProcess, EndsWithThisProgramHoweverThatEnds) {
  const TemporaryFile file({});
  const std::string script = "sleep 600 & echo $! > " + file.path() + "; wait";
  const pid_t runner = fork();
  ASSERT_GE(runner, 0);
  if (runner == 0) {
    (void)run_process({"sh", "-c", script});
    _exit(0);
  }
  const std::string sleeper = first_line(file.path());
  kill(runner, SIGKILL);
  ASSERT_EQ(waitpid(runner, nullptr, 0), runner);
  EXPECT_TRUE(process_ends(sleeper));
}

TEST(RunProcess, LeavesTheInputToThisProgram) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(pipe2(pipe.data(), O_NONBLOCK), 0);
  ASSERT_EQ(write(pipe[1], "line", 4), 4);
  const int before = dup(STDIN_FILENO);
  dup2(pipe[0], STDIN_FILENO);
  const ProcessResult result = run_process({"cat"}, {.max_seconds = 10});
  dup2(before, STDIN_FILENO);
  close(before);
  EXPECT_EQ(result.output, "");
  EXPECT_FALSE(result.timed_out);
  std::array<char, 5> left{};
  EXPECT_EQ(read(pipe[0], left.data(), left.size()), 4);
  close(pipe[0]);
  close(pipe[1]);
}

TEST(TemporaryFile, IsNotLeftBehindWhenTheDiskIsFull) {
  std::string pattern = (fs::path(testing::TempDir()) / "fovea-full-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = limit.rlim_max};
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  ::setenv("TMPDIR", pattern.c_str(), 1);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string why;
  try {
    const TemporaryFile file(std::vector<std::byte>(8192));
  } catch (const Error& error) {
    why = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  ::unsetenv("TMPDIR");
  std::signal(SIGXFSZ, before);
  EXPECT_NE(why.find("File too large"), std::string::npos) << why;
  EXPECT_TRUE(fs::is_empty(pattern));
  fs::remove_all(pattern);
}

TEST(ChildProcess, AnswersInLines) {
  Child child({"sh", "-c", "while read line; do echo \"<$line>\"; done; echo last; exit 4"});
  constexpr double kPatience = 60;
  for (const std::string text : {"one", "two words"}) {
    ASSERT_TRUE(child.write_line(text, kPatience));
    EXPECT_EQ(child.read_line(kPatience), "<" + text + ">");
  }
  child.close_input();
  EXPECT_EQ(child.read_line(kPatience), "last");
  EXPECT_EQ(child.read_line(kPatience), std::nullopt);
  EXPECT_EQ(child.why_silent(), "ended with exit code 4");
  EXPECT_FALSE(child.write_line("more", kPatience));
}

TEST(ChildProcess, SaysWhyThereIsNoAnswer) {
  Child silent({"sleep", "600"});
  EXPECT_EQ(silent.read_line(0.1), std::nullopt);
  EXPECT_EQ(silent.why_silent(), "did not answer within 0.1 s");
  // More than a pipe holds.
  EXPECT_FALSE(silent.write_line(std::string(1 << 20, 'x'), 0.1));
  EXPECT_EQ(silent.why_silent(), "did not read a line within 0.1 s");

  constexpr double kPatience = 60;
  Child dying({"sh", "-c", "echo something is wrong >&2; exit 7"});
  EXPECT_EQ(dying.read_line(kPatience), std::nullopt);
  EXPECT_EQ(dying.why_silent(), "ended with exit code 7: something is wrong");

  Child endless({"sh", "-c", "exec cat /dev/zero"});
  EXPECT_EQ(endless.read_line(kPatience), std::nullopt);
  EXPECT_EQ(endless.why_silent(), "wrote a line of more than 4 MiB");
  EXPECT_THROW(Child({"/no/such/program"}), Error);
}

TEST(ChildProcess, OutlivesTheThreadThatStartedIt) {
  std::unique_ptr<Child> child;
  std::thread([&] { child = std::make_unique<Child>(std::vector<std::string>{"cat"}); }).join();
  constexpr double kPatience = 60;
  ASSERT_TRUE(child->write_line("still here", kPatience));
  EXPECT_EQ(child->read_line(kPatience), "still here");
}

TEST(ChildProcess, KeepsWhyItEnded) {
  Child child({"sh", "-c", "read line; echo answer; echo it broke >&2; exit 1"});
  constexpr double kPatience = 60;
  ASSERT_TRUE(child.write_line("a question", kPatience));
  EXPECT_EQ(child.read_line(kPatience), "answer");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(child.read_line(kPatience), std::nullopt);
    EXPECT_EQ(child.why_silent(), "ended with exit code 1: it broke");
    EXPECT_FALSE(child.write_line("another", kPatience));
    EXPECT_EQ(child.why_silent(), "ended with exit code 1: it broke");
  }
}

TEST(ChildProcess, WhatItHasWrittenIsReadWhenItTakesNoMore) {
  Child child({"sh", "-c", "echo answer; exec sleep 600 <&-"});
  constexpr double kPatience = 60;
  while (child.write_line("a question", kPatience)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(child.why_silent(), "has closed its input");
  EXPECT_TRUE(child.is_open());
  EXPECT_EQ(child.read_line(kPatience), "answer");
}

TEST(ChildProcess, IsNotReadWhenItIsToStopWhateverItHasWritten) {
  std::atomic<bool> stop = false;
  Child child({"sh", "-c", "printf 'one\\ntwo\\n'; exec sleep 600"}, &stop);
  EXPECT_EQ(child.read_line(60), "one");
  stop = true;
  EXPECT_THROW((void)child.read_line(60), Interrupted);
}

TEST(ChildProcess, MaySaveItsStateWhenItsInputEnds) {
  std::atomic<bool> stop = false;
  for (const bool stopped : {false, true}) {
    const TemporaryFile file({});
    {
      Child child({"sh", "-c", "echo begun; cat; sleep 1; echo saved > " + file.path()}, &stop);
      EXPECT_EQ(child.read_line(60), "begun");
      stop = stopped;
    }
    std::string saved;
    std::getline(std::ifstream(file.path()), saved);
    EXPECT_EQ(saved, stopped ? "" : "saved");
  }
}

}  // namespace
}  // namespace fovea::lab
