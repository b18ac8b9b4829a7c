// Where the tools of CUDA are looked for.
#include "lab/process.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace fovea::lab
