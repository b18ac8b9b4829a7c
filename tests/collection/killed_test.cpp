// Updates and merges that are killed before each of their changes of a folder.
#include "collection/merge.hpp"
#include "killing_calls.hpp"
#include "support.hpp"

namespace fovea::collection {
namespace {

using testing::Content;
using testing::is_killed_at;
namespace fs = std::filesystem;

class KilledTest : public testing::CollectionTest {
 protected:
  void SetUp() override {
    CollectionTest::SetUp();
    for (int number = 0; number < 14; ++number) {
      write(fmt::format("{:02}.jpg", number), std::to_string(100 + number));
    }
    write("bad.jpg", "x");
  }

  void restore(const std::string& name) const {
    fs::remove_all(folder_ / name);
    fs::copy(folder_ / "kept", folder_ / name, fs::copy_options::recursive);
  }

  // Where some files are new and others are not yet, the manifest says so.
  void expect_told(const Content& before) const {
    const fs::path out = folder_ / "out";
    if (fs::exists(out / ".update/new/manifest.json") && content("out") != before) {
      EXPECT_FALSE(
          pipeline::parse_manifest(testing::read_text(out / "manifest.json")).state.finished);
    }
  }

  // Rows that a reader finds at any moment are whole rows of before or of after.
  void expect_between(const Content& before, const Content& after) const {
    for (const auto& [name, row] : content("out").rows) {
      const auto is_of = [&](const Content& state) {
        const auto found = state.rows.find(name);
        return found != state.rows.end() && found->second == row;
      };
      EXPECT_TRUE(is_of(before) || is_of(after)) << name;
    }
  }
};

TEST_F(KilledTest, UpdateBeforeAnyCall) {
  embed("kept");
  const Content before = content("kept");
  for (const char* const name : {"01.jpg", "04.jpg", "05.jpg", "06.jpg", "07.jpg", "bad.jpg"}) {
    remove(name);  // the second of four files loses all its rows
  }
  write("02.jpg", "202");
  write("13.jpg", "x13");
  for (const char* const name : {"00a.jpg", "a.jpg", "b.jpg", "c.jpg"}) {
    write(name, std::to_string(300 + written_));
  }
  restore("whole");
  const UpdateCounts counts = update("whole");
  const Content after = content("whole");
  int call = 0;
  int as_before = 0;
  for (restore("out"); is_killed_at(call, [&] { (void)update("out"); }); restore("out")) {
    expect_between(before, after);
    expect_told(before);
    as_before += content("out") == before ? 1 : 0;
    const UpdateCounts again = update("out");
    const bool was_done = again == UpdateCounts{.unchanged = after.rows.size()};
    EXPECT_TRUE(was_done || again == counts) << call;
    EXPECT_EQ(content("out"), after) << call;
    EXPECT_FALSE(fs::exists(folder_ / "out/.update"));
    ++call;
  }
  EXPECT_GE(call, 20);
  EXPECT_GE(as_before, 5);
  expect_fresh("whole");
}

TEST_F(KilledTest, UpdateThatIsKilledBeforeEveryFewCallsComesToItsEnd) {
  embed("out");
  for (int number = 0; number < 40; ++number) {
    write(fmt::format("n{:02}.jpg", number), std::to_string(500 + number));
  }
  remove("03.jpg");
  const Content before = content("out");
  constexpr int kCalls = 75;
  int kills = 0;
  while (is_killed_at(kCalls, [&] { (void)update("out"); })) {
    ASSERT_LT(++kills, 50) << content("out").rows.size();
    if (kills == 1) {
      write("n05.jpg", "9000");  // what was computed of it is no longer right
      remove("n06.jpg");
    }
  }
  EXPECT_GE(kills, 1);
  expect_fresh("out");
}

TEST_F(KilledTest, MergeBeforeAnyCall) {
  embed("a");
  inputs_ = {photo("00.jpg")};
  remove("00.jpg");
  write("more.jpg", "7");
  inputs_ = {photo("more.jpg")};
  embed("b");
  MergeOptions options;
  options.outputs = {(folder_ / "a").native(), (folder_ / "b").native()};
  options.output = (folder_ / "whole").native();
  EXPECT_EQ(merge(options).rows, 15U);
  const Content after = content("whole");
  options.output = (folder_ / "out").native();
  int call = 0;
  for (; is_killed_at(call, [&] { (void)merge(options); }); ++call) {
    if (!fs::exists(folder_ / "out/manifest.json")) {
      EXPECT_FALSE(fs::exists(folder_ / "out/embeddings-00000.npy")) << call;
    }
    const MergeReport report = merge(options);
    EXPECT_EQ(report.rows, 15U);
    EXPECT_EQ(content("out"), after) << call;
    EXPECT_FALSE(fs::exists(folder_ / "out/.update"));
    fs::remove_all(folder_ / "out");
  }
  EXPECT_GE(call, 15);
}

}  // namespace
}  // namespace fovea::collection
