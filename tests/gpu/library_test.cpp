// Vendors' libraries: the one that is named, or none, and the messages that say so.
#include "gpu/nvidia/library.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "fovea/error.hpp"

namespace fovea::gpu {
namespace {

constexpr const char* kVariable = "FOVEA_TEST_LIBRARY";

/// Opens the C library's mathematics, or what the variable names; the message when it fails.
std::string open(std::string_view name, Library* library = nullptr) {
  const std::array<std::string_view, 1> names = {name};
  const std::array<std::string_view, 1> packages = {"nvidia/none/lib"};
  try {
    const Library found = Library::open("the library", kVariable, names, packages);
    if (library != nullptr) {
      *library = found;
    }
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

class LibraryTest : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv(kVariable); }
};

TEST_F(LibraryTest, IsFoundByNameAndHasItsFunctions) {
  Library library;
  ASSERT_EQ(open("libm.so.6", &library), "");
  double (*const cosine)(double) = library.function("cos");
  EXPECT_EQ(cosine(0.0), 1.0);
  EXPECT_THROW((void)library.function("no_such_function"), Error);
}

TEST_F(LibraryTest, SaysWhereItLookedAndWhatToSet) {
  const std::string message = open("libno-such-thing.so");
  EXPECT_NE(message.find("cannot find the library"), std::string::npos) << message;
  EXPECT_NE(message.find(std::string("set ") + kVariable), std::string::npos) << message;
}

// Another one in its place would be measured under its name.
TEST_F(LibraryTest, TakesNoOtherThanTheOneThatIsNamed) {
  ::setenv(kVariable, "/no/such/file.so", 1);
  const std::string message = open("libm.so.6");
  EXPECT_NE(message.find("/no/such/file.so"), std::string::npos) << message;
  EXPECT_NE(message.find(kVariable), std::string::npos) << message;
}

// Where a library is, its absence is not what the user has to mend.
TEST_F(LibraryTest, TellsTheLoadersReasonForOneThatIsThere) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("fovea-library-{}", ::getpid());
  const std::filesystem::path folder =
      root / "lib" / "python3.12" / "site-packages" / "nvidia" / "none" / "lib";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "libbroken-thing.so") << "no machine code";
  const char* const before = std::getenv("VIRTUAL_ENV");
  const std::string environment = before != nullptr ? before : "";
  ::setenv("VIRTUAL_ENV", root.c_str(), 1);
  const std::string found = open("libbroken-thing.so");
  ::setenv("VIRTUAL_ENV", environment.c_str(), 1);
  EXPECT_NE(found.find("cannot be opened"), std::string::npos) << found;
  EXPECT_NE(found.find("file too short"), std::string::npos) << found;
  EXPECT_EQ(found.find("cannot find the library"), std::string::npos) << found;

  ::setenv(kVariable, (folder / "libbroken-thing.so").c_str(), 1);
  const std::string named = open("libm.so.6");
  EXPECT_NE(named.find("file too short"), std::string::npos) << named;
  std::filesystem::remove_all(root);
}

// The working directory may be anybody's: an empty or relative entry of PATH must not make it a
// place that libraries are run from.
TEST_F(LibraryTest, LooksInAbsoluteFoldersAlone) {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / fmt::format("fovea-relative-{}", ::getpid());
  const fs::path folder = root / "lib" / "python3.12" / "site-packages" / "nvidia" / "none" / "lib";
  fs::create_directories(folder);
  fs::create_directories(root / "bin");
  std::ofstream(folder / "libbroken-thing.so") << "no machine code";
  std::ofstream(root / "python3");
  std::ofstream(root / "bin" / "python3");
  const fs::path home = fs::current_path();
  const std::string path = std::getenv("PATH");
  fs::current_path(root);
  for (const char* const relative : {":/none", "bin:/none", "./bin:/none", ".:/none"}) {
    ::setenv("PATH", relative, 1);
    const std::string found = open("libbroken-thing.so");
    EXPECT_NE(found.find("cannot find the library"), std::string::npos)
        << relative << ": " << found;
  }
  ::setenv("PATH", (root / "bin").c_str(), 1);  // absolute: it is looked at
  const std::string found = open("libbroken-thing.so");
  EXPECT_NE(found.find("file too short"), std::string::npos) << found;
  ::setenv("PATH", path.c_str(), 1);
  fs::current_path(home);
  fs::remove_all(root);
}

}  // namespace
}  // namespace fovea::gpu
