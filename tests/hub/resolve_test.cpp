// Names of models: folders, files in them, hub ids in a cache laid out by hand.
#include "hub/resolve.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"
#include "hub/cache.hpp"

namespace fovea::hub {
namespace {
namespace fs = std::filesystem;

const std::string kCommit(40, 'a');

class ResolveTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fovea-hub-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    for (const char* name :
         {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"}) {
      ::unsetenv(name);
    }
    ::setenv("HOME", folder_.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }

  // A snapshot of org/name with everything a model needs.
  static fs::path add_snapshot(const fs::path& cache) {
    const fs::path model = cache / "models--org--name";
    const fs::path snapshot = model / "snapshots" / kCommit;
    for (const char* name : {"config.json", "preprocessor_config.json", "model.safetensors"}) {
      write(snapshot / name, "x");
    }
    write(model / "refs/main", kCommit);
    write(model / "refs/pr/1", kCommit + "\n");
    return snapshot;
  }

  static std::string error_of(const std::string& name, const std::string& revision = "main") {
    try {
      (void)resolve_model(name, revision);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

TEST_F(ResolveTest, FoldersAreTakenAsTheyAre) {
  EXPECT_EQ(resolve_model(folder_.string()), folder_);
  write(folder_ / "model.safetensors", "x");
  EXPECT_EQ(resolve_model((folder_ / "model.safetensors").string()), folder_);
  write(folder_ / "other.safetensors", "x");
  EXPECT_NE(error_of((folder_ / "other.safetensors").string()).find("expected a folder"),
            std::string::npos);
}

TEST_F(ResolveTest, HubIdsAreFoundByBranchAndCommit) {
  const fs::path snapshot = add_snapshot(folder_ / ".cache/huggingface/hub");
  EXPECT_EQ(resolve_model("org/name"), snapshot);
  EXPECT_EQ(resolve_model("org/name", "pr/1"), snapshot);
  EXPECT_EQ(resolve_model("org/name", kCommit), snapshot);
}

TEST_F(ResolveTest, TheEnvironmentSaysWhereTheCacheIs) {
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(cache_folder(), "/xdg/huggingface/hub");
  ::setenv("HF_HOME", "~/hf", 1);
  EXPECT_EQ(cache_folder(), folder_ / "hf/hub");
  ::setenv("HUGGINGFACE_HUB_CACHE", "/older", 1);
  EXPECT_EQ(cache_folder(), "/older");
  ::setenv("HF_HUB_CACHE", "/cache", 1);
  EXPECT_EQ(cache_folder(), "/cache");
}

TEST_F(ResolveTest, AbsentModelsAreToldHowToGet) {
  const std::string absent = error_of("org/name");
  EXPECT_NE(absent.find("fovea pull org/name"), std::string::npos) << absent;
  EXPECT_NE(absent.find("models--org--name/refs/main"), std::string::npos) << absent;
  const std::string tag = error_of("org/name", "v2");
  EXPECT_NE(tag.find("fovea pull org/name --revision v2"), std::string::npos) << tag;
  EXPECT_NE(error_of("no-such-folder").find("not a hub id"), std::string::npos);
  // One of the cache is advised when its name was mistyped, not when another revision was asked
  // for.
  (void)add_snapshot(folder_ / ".cache/huggingface/hub");
  EXPECT_NE(error_of("org/nme").find("did you mean org/name?"), std::string::npos);
  const std::string other = error_of("org/name", "v2");
  EXPECT_EQ(other.find("did you mean"), std::string::npos) << other;
}

TEST_F(ResolveTest, IncompleteSnapshotsNameWhatIsMissing) {
  const fs::path snapshot = add_snapshot(folder_ / ".cache/huggingface/hub");
  fs::remove(snapshot / "model.safetensors");
  fs::create_symlink("../../blobs/gone", snapshot / "model.safetensors");
  const std::string message = error_of("org/name");
  EXPECT_NE(message.find("lacks model.safetensors"), std::string::npos) << message;
  write(snapshot / "model.safetensors.index.json", "{}");
  EXPECT_EQ(resolve_model("org/name"), snapshot);
}

TEST_F(ResolveTest, HubIdsAreCheckedBeforeTheyBecomePaths) {
  EXPECT_TRUE(is_hub_id("google/siglip2-so400m-patch14-384"));
  for (const char* bad : {"name", "a/b/c", "/b", "a/", "../x", "a/..", "a/b--c", "a/.b", "a/b c",
                          "a/b\n", "a/b-", "\xc3\xa9/b"}) {
    EXPECT_FALSE(is_hub_id(bad)) << bad;
  }
}

}  // namespace
}  // namespace fovea::hub
