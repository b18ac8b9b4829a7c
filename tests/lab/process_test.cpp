// Where the tools of CUDA are looked for; time limits, and programs that are talked to.
#include "lab/process.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"

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

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
  ProcessResult result;
  const std::string script = "echo begun; (sleep 600; echo alive > " + file.path() + ") & wait";
  const double seconds =
      seconds_of([&] { result = run_process({"sh", "-c", script}, {.most_seconds = 0.5}); });
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_EQ(result.output, "begun\n");
  EXPECT_LT(seconds, 60);
  // Nobody of its group is left.
  const ProcessResult left = run_process({"pgrep", "-f", "alive > " + file.path()});
  EXPECT_EQ(left.output, "");
  EXPECT_FALSE(run_process({"true"}, {.most_seconds = 60}).timed_out);
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
  EXPECT_EQ(silent.why_silent(), "took no line within 0.1 s");

  constexpr double kPatience = 60;
  Child dying({"sh", "-c", "echo something is wrong >&2; exit 7"});
  EXPECT_EQ(dying.read_line(kPatience), std::nullopt);
  EXPECT_EQ(dying.why_silent(), "ended with exit code 7: something is wrong");

  Child endless({"sh", "-c", "exec cat /dev/zero"});
  EXPECT_EQ(endless.read_line(kPatience), std::nullopt);
  EXPECT_EQ(endless.why_silent(), "wrote a line of more than 4 MiB");
  EXPECT_THROW(Child({"/no/such/program"}), Error);
}

}  // namespace
}  // namespace fovea::lab
