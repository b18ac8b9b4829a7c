// Updates: what is compared with what, the order of rows, which files are touched, what is refused.
#include <chrono>

#include <sys/stat.h>

#include "pipeline/output_proof.hpp"
#include "pipeline/stored_file.hpp"
#include "support.hpp"

namespace fovea::collection {
namespace {

using testing::Content;
namespace fs = std::filesystem;

class UpdateTest : public testing::CollectionTest {
 protected:
  void SetUp() override {
    CollectionTest::SetUp();
    for (int number = 0; number < 10; ++number) {
      write(fmt::format("{:02}.jpg", number), std::to_string(100 + number));
    }
    embed("out");
  }

  [[nodiscard]] std::vector<std::string> order() const {
    std::vector<std::string> names;
    for (const std::string& name : content("out").order) {
      names.push_back(fs::path(name).filename());
    }
    return names;
  }
  [[nodiscard]] std::uint64_t inode(const std::string& name) const {
    struct stat info{};
    EXPECT_EQ(::stat((folder_ / "out" / name).c_str(), &info), 0);
    return info.st_ino;
  }
  [[nodiscard]] pipeline::Manifest manifest() const {
    return pipeline::parse_manifest(testing::read_text(folder_ / "out/manifest.json"));
  }
  [[nodiscard]] std::string message_of(UpdateOptions options = {}) const {
    return pipeline::finding_of([&] { (void)update("out", std::move(options)); });
  }
  void expect_proven() const {
    const io::Folder output(folder_ / "out");
    std::vector<std::string> problems;
    (void)pipeline::prove(output, manifest(), nullptr, {}, &problems);
    EXPECT_EQ(problems, std::vector<std::string>());
  }
};

TEST_F(UpdateTest, WithoutChangesNothingIsWritten) {
  const std::string before = testing::read_text(folder_ / "out/manifest.json");
  const std::uint64_t file = inode("manifest.json");
  EXPECT_EQ(update("out"), (UpdateCounts{.unchanged = 10}));
  EXPECT_EQ(testing::read_text(folder_ / "out/manifest.json"), before);
  EXPECT_EQ(inode("manifest.json"), file);
  expect_fresh("out");
}

TEST_F(UpdateTest, RowsKeepTheirOrderAndNewOnesComeLast) {
  remove("01.jpg");
  write("05.jpg", "205");
  write("00a.jpg", "300");
  write("99.jpg", "301");
  fs::rename(photo("08.jpg"), photo("03b.jpg"));
  EXPECT_EQ(update("out"),
            (UpdateCounts{.added = 3, .reembedded = 1, .dropped = 2, .unchanged = 7}));
  EXPECT_EQ(order(),
            (std::vector<std::string>{"00.jpg", "02.jpg", "03.jpg", "04.jpg", "05.jpg", "06.jpg",
                                      "07.jpg", "09.jpg", "00a.jpg", "03b.jpg", "99.jpg"}));
  expect_fresh("out");
  expect_proven();
  EXPECT_EQ(manifest().last_update,
            (UpdateCounts{.added = 3, .reembedded = 1, .dropped = 2, .unchanged = 7}));
}

TEST_F(UpdateTest, FilesWithoutChangesAreNotTouched) {
  const std::uint64_t first = inode("embeddings-00000.npy");
  const std::uint64_t first_index = inode("index-00000.jsonl");
  const std::uint64_t second = inode("embeddings-00001.npy");
  const std::uint64_t last = inode("embeddings-00002.npy");
  write("05.jpg", "205");
  (void)update("out");
  EXPECT_EQ(inode("embeddings-00000.npy"), first);
  EXPECT_EQ(inode("index-00000.jsonl"), first_index);
  EXPECT_NE(inode("embeddings-00001.npy"), second);
  EXPECT_EQ(inode("embeddings-00002.npy"), last);
  expect_fresh("out");
}

TEST_F(UpdateTest, TheLastFileIsFilledUp) {
  for (int number = 0; number < 7; ++number) {
    write(fmt::format("z{}.jpg", number), std::to_string(400 + number));
  }
  (void)update("out");
  EXPECT_EQ(manifest().state.shards, 5U);  // 4 + 4 + 4 + 4 + 1
  embed("fresh");
  for (int number = 0; number < 5;
       ++number) {  // the order is that of a fresh run, so are the files
    const std::string name = fmt::format("embeddings-{:05}.npy", number);
    EXPECT_EQ(testing::read_text(folder_ / "out" / name),
              testing::read_text(folder_ / "fresh" / name));
  }
}

TEST_F(UpdateTest, AFileThatLosesAllRowsStaysUnlessItIsTheLast) {
  for (const char* const name : {"04.jpg", "05.jpg", "06.jpg", "07.jpg"}) {
    remove(name);
  }
  (void)update("out");
  EXPECT_EQ(io::NpyFile(folder_ / "out/embeddings-00001.npy").shape()[0], 0);
  expect_fresh("out");
  expect_proven();
  remove("08.jpg");
  remove("09.jpg");
  (void)update("out");  // the last one and that before it
  EXPECT_FALSE(fs::exists(folder_ / "out/embeddings-00001.npy"));
  EXPECT_FALSE(fs::exists(folder_ / "out/index-00002.jsonl"));
  expect_fresh("out");
  expect_proven();
}

TEST_F(UpdateTest, OnlyTheDateTellsOfAChangeOfTheSameSize) {
  write("02.jpg", "777");
  EXPECT_EQ(update("out").reembedded, 1U);
  expect_fresh("out");
}

TEST_F(UpdateTest, OnlyTheSizeTellsOfAChangeOfTheSameDate) {
  write("02.jpg", "7777", true);
  EXPECT_EQ(update("out").reembedded, 1U);
  expect_fresh("out");
}

TEST_F(UpdateTest, ChecksumTellsOfAChangeThatNeitherTells) {
  fs::remove_all(folder_ / "out");
  embed("out", true);
  write("02.jpg", "777", true);
  EXPECT_EQ(update("out").reembedded, 0U);
  EXPECT_EQ(update("out", {.checksum = true}), (UpdateCounts{.reembedded = 1, .unchanged = 9}));
  const auto all = content("out");
  const auto& [bytes, line] = all.rows.at(photo("02.jpg"));
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  EXPECT_EQ(value, 777);
}

TEST_F(UpdateTest, ChecksumWithoutSumsEmbedsAllAnew) {
  EXPECT_EQ(update("out", {.checksum = true}), (UpdateCounts{.reembedded = 10}));
  EXPECT_EQ(update("out", {.checksum = true}), (UpdateCounts{.unchanged = 10}));
}

TEST_F(UpdateTest, ARenamedPhotoIsCopiedWhereContentsAreKnown) {
  fs::remove_all(folder_ / "out");
  embed("out", true);
  fs::rename(photo("03.jpg"), photo("renamed.jpg"));
  write("copy.jpg", "104");
  write("06.jpg", "106");  // another date, the same contents
  EXPECT_EQ(update("out"),
            (UpdateCounts{
                .added = 2, .reembedded = 0, .dropped = 1, .unchanged = 8 + 1, .not_computed = 2}));
  expect_proven();
  Content should;
  embed("sums", true);
  should = content("sums");
  EXPECT_EQ(content("out").rows, should.rows);
}

TEST_F(UpdateTest, FailedInputsAreTriedAgainAndOldErrorsGo) {
  write("bad1.jpg", "x1");
  write("bad2.jpg", "x2");
  write("bad3.jpg", "x3");
  EXPECT_EQ(update("out"), (UpdateCounts{.unchanged = 10}));
  EXPECT_EQ(content("out").errors.size(), 3U);
  remove("bad1.jpg");
  write("bad2.jpg", "500");
  write("04.jpg", "x4");  // its row goes
  EXPECT_EQ(update("out"), (UpdateCounts{.added = 1, .dropped = 1, .unchanged = 9}));
  expect_fresh("out");
  expect_proven();
}

TEST_F(UpdateTest, AnUnfinishedOutputIsUpdated) {
  fs::remove_all(folder_ / "out");
  {
    pipeline::LeftOut left_out;
    pipeline::InputStream stream = inputs(left_out);
    pipeline::FolderOutput output(folder_ / "out", identity(), false);
    output.begin();
    pipeline::RunOptions options = run_options();
    int batches = 0;
    std::atomic<bool> enough = false;
    options.control.stop = &enough;
    const auto counting = [&] {
      return [&, inner = encode()](std::span<const std::uint8_t> pixels,
                                   std::span<const PatchGrid> grids, std::span<std::byte> out,
                                   const pipeline::OnComputed& computed) {
        inner(pixels, grids, out, computed);
        enough = ++batches == 2;
      };
    };
    (void)pipeline::run_job(options, stream, prepare({}), counting, output);
    ASSERT_FALSE(output.state().finished);
    ASSERT_EQ(output.state().rows, 6U);
  }
  remove("00.jpg");
  write("03.jpg", "203");
  write("05.jpg", "205");  // in the file that was being filled
  EXPECT_EQ(update("out"),
            (UpdateCounts{.added = 4, .reembedded = 2, .dropped = 1, .unchanged = 3}));
  expect_fresh("out");
  expect_proven();
}

TEST_F(UpdateTest, AFolderWithoutImagesIsNotTakenForADeletion) {
  write("sub/a.jpg", "1");
  inputs_ = {photo("00.jpg"), photo("sub")};
  fs::remove_all(folder_ / "out");
  embed("out");
  const Content before = content("out");
  remove("sub/a.jpg");
  EXPECT_NE(message_of().find("not mounted"), std::string::npos) << message_of();
  EXPECT_EQ(content("out"), before);
  inputs_ = {photo("00.jpg")};
  EXPECT_EQ(update("out"), (UpdateCounts{.dropped = 1, .unchanged = 1}));
}

TEST_F(UpdateTest, RowsBelowAFolderThatCannotBeReadStay) {
  write("sub/a.jpg", "1");
  const fs::path list = folder_ / "list.txt";
  std::ofstream(list) << photo("00.jpg") << "\n" << photo("sub") << "\n";
  inputs_ = {"@" + list.native()};
  fs::remove_all(folder_ / "out");
  embed("out");
  fs::rename(photo("sub"), folder_ / "elsewhere");  // now the line is a failed input
  EXPECT_EQ(update("out"), (UpdateCounts{.unchanged = 2}));
  const Content now = content("out");
  EXPECT_TRUE(now.rows.contains(photo("sub/a.jpg")));
  EXPECT_TRUE(now.errors.contains(photo("sub")));
  expect_proven();
  fs::rename(folder_ / "elsewhere", photo("sub"));
  EXPECT_EQ(update("out"), (UpdateCounts{.unchanged = 2}));
  expect_fresh("out");
}

TEST_F(UpdateTest, AListThatBreaksOffDropsNothing) {
  const fs::path list = folder_ / "list.jsonl";
  std::ofstream(list) << R"({"path": ")" << photo("00.jpg") << "\"}\n"
                      << R"({"path": ")" << photo("01.jpg") << "\"}\n";
  inputs_ = {list.native()};
  fs::remove_all(folder_ / "out");
  embed("out");
  std::ofstream(list) << R"({"path": ")" << photo("00.jpg") << "\"}\n"
                      << std::string(2U << 20U, ' ') << "\n";
  const Content before = content("out");
  EXPECT_NE(message_of().find("unknown which photos are gone"), std::string::npos) << message_of();
  EXPECT_EQ(content("out"), before);
}

TEST_F(UpdateTest, MaxDropChangesNothing) {
  remove("01.jpg");
  remove("02.jpg");
  const Content before = content("out");
  EXPECT_NE(message_of({.max_drop = 1}).find("drop 2 rows, more than --max-drop 1"),
            std::string::npos);
  EXPECT_EQ(content("out"), before);
  EXPECT_EQ(update("out", {.max_drop = 2}).dropped, 2U);
}

TEST_F(UpdateTest, ComputedRowsWaitForTheNextUpdateUnlessTheirPhotosChange) {
  remove("01.jpg");
  write("n1.jpg", "301");
  write("n2.jpg", "302");
  ASSERT_FALSE(message_of({.max_drop = 0}).empty());  // both are computed by now
  ASSERT_TRUE(fs::exists(folder_ / "out/.update/rows"));
  write("n2.jpg", "303");
  write("n3.jpg", "304");
  const std::uint64_t computed = computed_;
  EXPECT_EQ(update("out"), (UpdateCounts{.added = 3, .dropped = 1, .unchanged = 9}));
  EXPECT_EQ(computed_ - computed, 2U);  // not n1.jpg again
  expect_fresh("out");
}

TEST_F(UpdateTest, InputsThatOccurTwiceHaveTwoRows) {
  inputs_ = {photo("00.jpg"), photo("01.jpg"), photo("00.jpg"), photo("00.jpg")};
  fs::remove_all(folder_ / "out");
  embed("out");
  const std::string before = testing::read_text(folder_ / "out/index-00000.jsonl");
  EXPECT_EQ(update("out"), (UpdateCounts{.unchanged = 4}));
  EXPECT_EQ(testing::read_text(folder_ / "out/index-00000.jsonl"), before);
  inputs_.pop_back();
  EXPECT_EQ(update("out"), (UpdateCounts{.dropped = 1, .unchanged = 3}));
  EXPECT_EQ(testing::lines_of(folder_ / "out/index-00000.jsonl").size(), 3U);
}

TEST_F(UpdateTest, OldIndexesWithoutDatesNeedAChecksum) {
  const auto forget_dates = [&](const std::string& name) {
    fs::path path = folder_ / "out" / name;
    std::string text;
    for (std::string line : testing::lines_of(path)) {
      text += line.substr(0, line.find(", \"bytes\"")) + "}\n";
    }
    std::ofstream(path) << text;
    return text;
  };
  shard_rows_ = 100;
  fs::remove_all(folder_ / "out");
  embed("out");
  // The checksums of an output as an earlier version made it.
  const std::string index = forget_dates("index-00000.jsonl");
  pipeline::Manifest old = manifest();
  std::string journal;
  for (const std::string& text : testing::lines_of(folder_ / "out/checksums.jsonl")) {
    pipeline::JournalLine line = pipeline::parse_journal_line(text);
    if (auto* const file = std::get_if<pipeline::FileRecord>(&line)) {
      file->index_bytes = index.size();
      file->index_sum = io::Digest::sha256_head(index);
    }
    journal += pipeline::format_journal_line(line);
  }
  std::ofstream(folder_ / "out/checksums.jsonl") << journal;
  old.state.journal_bytes = journal.size();
  old.state.journal_sum = io::Digest::sha256_head(journal);
  std::ofstream(folder_ / "out/manifest.json") << pipeline::format_manifest(old);
  expect_proven();
  EXPECT_NE(message_of().find("--checksum"), std::string::npos) << message_of();
  EXPECT_EQ(update("out", {.checksum = true}).reembedded, 10U);
}

}  // namespace
}  // namespace fovea::collection
