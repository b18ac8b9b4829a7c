// Which inputs a command line stands for, and in which order.
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.hpp"
#include "io/npy.hpp"
#include "pipeline/braces.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/prepare.hpp"
#include "pipeline/read_file.hpp"
#include "support.hpp"

namespace fovea::pipeline::testing {
namespace {

class SourcesTest : public FolderTest {
 protected:
  std::vector<Item> items(std::vector<std::string> inputs, bool load = true) const {
    const auto source = make_source({.inputs = std::move(inputs)}, pixels_);
    return drain(*source, load);
  }
  std::vector<std::string> names(std::vector<std::string> inputs) const {
    return names_of(items(std::move(inputs)));
  }

  Preprocessing pixels_{.height = 2, .width = 2};
};

std::vector<std::string> expand(std::string_view pattern) {
  const BracePattern braces(pattern);
  std::vector<std::string> names;
  for (std::uint64_t index = 0; index < braces.count(); ++index) {
    names.push_back(braces.name(index));
  }
  return names;
}

TEST(Braces, ExpandLikeAShell) {
  EXPECT_EQ(expand("x-{08..11}.tar"), (Names{"x-08.tar", "x-09.tar", "x-10.tar", "x-11.tar"}));
  EXPECT_EQ(expand("{9..11}"), (Names{"9", "10", "11"}));
  EXPECT_EQ(expand("{2..0}"), (Names{"2", "1", "0"}));
  EXPECT_EQ(expand("{a,b}{1..2}c"), (Names{"a1c", "a2c", "b1c", "b2c"}));
  EXPECT_EQ(expand("x{,.bak}"), (Names{"x", "x.bak"}));
  EXPECT_EQ(expand("plain"), (Names{"plain"}));
  EXPECT_EQ(expand("{x}{}}{"), (Names{"{x}{}}{"}));
  EXPECT_FALSE(BracePattern("{x}").has_groups());
}

TEST(Braces, WideRangesTakeNoMemoryAndAbsurdOnesAreRefused) {
  const BracePattern wide("{0..999999999}");
  EXPECT_EQ(wide.count(), 1'000'000'000U);
  EXPECT_EQ(wide.name(123'456'789), "123456789");
  EXPECT_THROW(BracePattern("{0..1000000000}"), Error);
  EXPECT_THROW(BracePattern("{0..999999}{0..999999}"), Error);
  EXPECT_THROW(BracePattern("{a,{b,c}}"), Error);
  EXPECT_EQ(BracePattern("{0..99999999999999999999}").count(), 1U);  // no number: plain text
}

TEST_F(SourcesTest, FolderComesInByteOrderOfPathsAndTakesImagesOnly) {
  for (const char* name : {"d/b.JPG", "d/a/z.png", "d/a.jpeg", "d/a-b.webp", "d/notes.txt", "d/jpg",
                           "d/._b.jpg", "d/x.jpg/inner.gif", "d/c.tiff", "d/e.jpg.tar"}) {
    write(name);
  }
  EXPECT_EQ(names({path("d")}),
            (Names{path("d/a-b.webp"), path("d/a.jpeg"), path("d/a/z.png"), path("d/b.JPG"),
                   path("d/c.tiff"), path("d/x.jpg/inner.gif")}));
  // A folder named like an image is a folder on the command line too.
  EXPECT_EQ(names({path("d/x.jpg")}), (Names{path("d/x.jpg/inner.gif")}));
  // Named by itself, a file needs no extension.
  EXPECT_EQ(names({path("d/jpg")}), (Names{path("d/jpg")}));
}

TEST_F(SourcesTest, FolderSurvivesLinkLoopsAndFollowsOtherLinks) {
  write("d/a.jpg");
  write("elsewhere/b.jpg");
  fs::create_directory_symlink(folder_ / "d", folder_ / "d/loop");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "d/other");
  fs::create_symlink(folder_ / "gone.jpg", folder_ / "d/dangling.jpg");
  EXPECT_EQ(names({path("d")}),
            (Names{path("d/a.jpg"), path("d/dangling.jpg"), path("d/other/b.jpg")}));
}

TEST_F(SourcesTest, ListsNameFilesFoldersAndArchives) {
  write("d/a.jpg");
  write("t.tar", tar_member("k.jpg", "bytes") + tar_end());
  write("odd{1,2}.jpg");
  const std::string list = write("list.txt", path("d") + "\r\n\n" + path("odd{1,2}.jpg") + "\n" +
                                                 path("t.tar") + "\n" + path("missing.jpg"));
  EXPECT_EQ(names({"@" + list}), (Names{path("d/a.jpg"), path("odd{1,2}.jpg"),
                                        path("t.tar") + "#k.jpg", path("missing.jpg")}));
  const std::string nul = write("list0", std::string("a\nb.jpg\0c.jpg\0", 14));
  const auto source = make_source({.inputs = {"@" + nul}, .null_separated = true}, pixels_);
  EXPECT_EQ(names_of(drain(*source)), (Names{"a\nb.jpg", "c.jpg"}));
}

TEST_F(SourcesTest, NamesThatStandForNothingAreRefusedBeforeAnyWork) {
  EXPECT_THROW(items({path("typo.jpg")}), Error);
  EXPECT_THROW(items({"@" + path("typo.txt")}), Error);
  EXPECT_THROW(items({""}), Error);
  EXPECT_THROW(items({}), Error);
  EXPECT_THROW(items({"-", "-"}), Error);
  // A pattern may have holes; they are failed inputs.
  EXPECT_EQ(names({path("x{0..1}.jpg")}), (Names{path("x0.jpg"), path("x1.jpg")}));
}

TEST_F(SourcesTest, JsonLines) {
  const std::string file = write("in.jsonl",
                                 "{\"path\": \"a.jpg\", \"caption\": \"x\"}\n"
                                 "{\"image\": \"caf\\u00e9.jpg\"}\n\n"
                                 "{\"row\": 3, \"source\": \"caf\\\\xe9.jpg\"}\n"
                                 "{\"url\": \"http://x/y.jpg\"}\n"
                                 "not json\n"
                                 "{\"path\": 3}\n"
                                 "{\"path\": \"a\", \"image\": \"b\"}\n");
  const std::vector<Item> found = items({file});
  EXPECT_EQ(names_of(found), (Names{"a.jpg", "caf\xc3\xa9.jpg", "caf\xe9.jpg", file + "#5",
                                    file + "#6", file + "#7", file + "#8"}));
  for (std::size_t index = 0; index < found.size(); ++index) {
    EXPECT_EQ(found[index].kind == Item::Kind::kFailed, index >= 3) << index;
  }
}

TEST_F(SourcesTest, JsonLineOfManyBracketsIsRefusedWithoutRecursion) {
  EXPECT_THROW((void)parse_input_line(std::string(1'000'000, '[')), Error);
  EXPECT_THROW((void)parse_input_line("{\"path\":" + std::string(500'000, '[')), Error);
}

TEST_F(SourcesTest, IndexAndErrorLinesReadBack) {
  const std::string odd = "new\nline \xff \\ \"quote\".jpg";
  const IndexLine line = parse_index_line(format_index_line({7, odd, 640, 480}));
  EXPECT_EQ(line.row, 7U);
  EXPECT_EQ(line.source, odd);
  EXPECT_EQ(line.width, 640);
  EXPECT_EQ(line.height, 480);
  EXPECT_EQ(line.file, std::nullopt);
  for (const std::int64_t date : {std::int64_t{-1}, std::int64_t{1'500'000'000'123'456'789}}) {
    const io::FileStamp file{12345, date};
    EXPECT_EQ(parse_index_line(format_index_line({7, odd, 640, 480, file})).file, file);
    const PatchGrid patches{.height = 12, .width = 21};
    const IndexLine seen{7, odd, 640, 480, file, "", false, patches};
    EXPECT_EQ(parse_index_line(format_index_line(seen)).patches, patches);
  }
  const std::string other =
      R"({"row": 0, "source": "a", "width": 1, "height": 1, "bytes": "12 kB"})";
  EXPECT_EQ(parse_index_line(other).file, std::nullopt);
  EXPECT_EQ(parse_error_source(format_error_line(odd, "bad \xff byte")), odd);
  EXPECT_EQ(format_index_line({0, "photos/a.jpg", 640, 480}),
            "{\"row\": 0, \"source\": \"photos/a.jpg\", \"width\": 640, \"height\": 480}\n");
  EXPECT_EQ(
      format_index_line({0, "a.jpg", 640, 480, io::FileStamp{96871, -5}}),
      "{\"row\": 0, \"source\": \"a.jpg\", \"width\": 640, \"height\": 480, \"bytes\": 96871, "
      "\"modified_ns\": -5}\n");
}

TEST_F(SourcesTest, TarGivesImageMembersInOrder) {
  const std::string tar = write(
      "x.tar", tar_member("a/0001.jpg", "one") + tar_member("a/0001.json", "{}") +
                   tar_member("0002.seg.png", "two") + tar_member("0002.PNG", "three") +
                   tar_member("._0002.png", "fork") + tar_member("empty.jpg", "") + tar_end());
  const std::vector<Item> found = items({tar});
  EXPECT_EQ(names_of(found), (Names{tar + "#a/0001.jpg", tar + "#0002.seg.png", tar + "#0002.PNG",
                                    tar + "#empty.jpg"}));
  EXPECT_EQ(text_of(found[0].bytes), "one");
  EXPECT_EQ(text_of(found[2].bytes), "three");
  EXPECT_EQ(found[3].kind, Item::Kind::kFailed);
  const auto keyed = make_source({.inputs = {tar}, .image_key = "seg.png;jpg"}, pixels_);
  EXPECT_EQ(names_of(drain(*keyed)),
            (Names{tar + "#a/0001.jpg", tar + "#0002.seg.png", tar + "#empty.jpg"}));
}

TEST_F(SourcesTest, TruncatedTarKeepsWhatIsWholeAndNamesWhatIsNot) {
  const std::string whole = tar_member("a.jpg", std::string(700, 'a')) +
                            tar_member("b.jpg", std::string(5000, 'b')) +
                            tar_member("c.jpg", std::string(3000, 'c')) + tar_end();
  // Cut inside b's data: b is damaged, and c is lost with it.
  const std::string tar = write("cut.tar", whole.substr(0, 4096));
  for (const bool load : {true, false}) {
    const std::vector<Item> found = items({tar}, load);
    EXPECT_EQ(names_of(found), (Names{tar + "#a.jpg", tar + "#b.jpg", tar})) << load;
    EXPECT_EQ(found[2].kind, Item::Kind::kFailed);
    EXPECT_PRED2(contains, found[2].error, "b.jpg");
    if (load) {
      EXPECT_EQ(text_of(found[0].bytes), std::string(700, 'a'));
      EXPECT_EQ(found[1].kind, Item::Kind::kFailed);
    }
  }
  // Cut inside a header.
  const std::vector<Item> header = items({write("header.tar", whole.substr(0, 1536 + 100))});
  EXPECT_EQ(names_of(header), (Names{path("header.tar") + "#a.jpg", path("header.tar")}));
  // Not an archive at all, and an empty file.
  EXPECT_EQ(items({write("no.tar", "no archive")}).at(0).kind, Item::Kind::kFailed);
}

/// What a worker makes of a row of 2 x 2 pixels.
void read_pixels(Item& item, int patch, std::string& pixels) {
  const PixelLayout layout{.preprocessing = {.height = 2, .width = 2}, .patch = patch};
  Slot slot;
  make_prepare(layout)()(item, {reinterpret_cast<std::uint8_t*>(pixels.data()), pixels.size()},
                         slot, {});
}

TEST_F(SourcesTest, PixelsComeBackWithTheirIndex) {
  const std::string header = io::npy_header(DType::kU8, {2, 2, 2, 3});
  const std::string file = write("p.npy", header + "abcdefghijklmnopqrstuvwx");
  std::vector<Item> found = items({file});
  EXPECT_EQ(names_of(found), (Names{file + "#0", file + "#1"}));
  std::string pixels(12, '\0');
  read_pixels(found[1], 0, pixels);
  EXPECT_EQ(pixels, "mnopqrstuvwx");
  read_pixels(found[1], 1, pixels);  // patches of one pixel: the same order
  EXPECT_EQ(pixels, "mnopqrstuvwx");
  EXPECT_EQ(found[1].width, 2);
  write("p.index.jsonl",
        format_index_line({0, "a.jpg", 10, 20}) + format_index_line({1, "b.jpg", 30, 40}));
  found = items({file});
  EXPECT_EQ(names_of(found), (Names{"a.jpg", "b.jpg"}));
  EXPECT_EQ(found[1].height, 40);
  write("p.index.jsonl", format_index_line({0, "a.jpg", 10, 20}));
  found = items({file});  // an index of other pixels would give rows wrong names
  EXPECT_EQ(names_of(found), (Names{"a.jpg", file}));
  EXPECT_EQ(found.back().kind, Item::Kind::kFailed);
  write("p.index.jsonl", format_index_line({0, "a.jpg", 10, 20}) +
                             format_index_line({1, "b.jpg", 30, 40}) +
                             format_index_line({2, "c.jpg", 50, 60}));
  found = items({file});
  EXPECT_EQ(names_of(found), (Names{"a.jpg", "b.jpg", file}));
  EXPECT_EQ(found.back().kind, Item::Kind::kFailed);
  EXPECT_THROW(
      items({write("q.npy", io::npy_header(DType::kU8, {1, 2, 3, 3}) + std::string(18, 'x'))}),
      Error);
}

// Only the rows that are gone fail; a map would be a signal that ends the process.
TEST_F(SourcesTest, PixelsThatAreCutOffFailByThemselves) {
  const std::string header = io::npy_header(DType::kU8, {2, 2, 2, 3});
  const std::string file = write("p.npy", header + "abcdefghijklmnopqrstuvwx");
  std::vector<Item> found = items({file});
  fs::resize_file(file, header.size() + 23);
  std::string pixels(12, '\0');
  read_pixels(found[0], 0, pixels);
  EXPECT_EQ(pixels, "abcdefghijkl");
  for (const int patch : {0, 1}) {
    try {
      read_pixels(found[1], patch, pixels);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_PRED2(contains, error.what(), file + ": shrank to");
    }
  }
}

TEST_F(SourcesTest, ShardsPartTheInputs) {
  std::vector<std::string> seen;
  for (std::uint64_t shard = 0; shard < 3; ++shard) {
    InputStream stream(std::make_unique<CountingSource>(8), shard, 3);
    Item item;
    while (stream.next(item)) {
      seen.push_back(item.name);
      EXPECT_EQ(item.number % 3, shard);
    }
  }
  EXPECT_EQ(seen.size(), 8U);
  EXPECT_THROW(InputStream(std::make_unique<CountingSource>(8), 3, 3), Error);
}

TEST_F(SourcesTest, SkippingNoticesChangedInputs) {
  const auto stream = [](std::uint64_t count) {
    return InputStream(std::make_unique<CountingSource>(count), 0, 1);
  };
  InputStream first = stream(10);
  Item item;
  for (int taken = 0; taken < 4; ++taken) {
    ASSERT_TRUE(first.next(item));
  }
  const std::uint64_t names = first.names().value();
  InputStream second = stream(10);
  second.skip(4, names);
  ASSERT_TRUE(second.next(item));
  EXPECT_EQ(item.number, 4U);
  EXPECT_EQ(second.skip_rest(), 5U);
  EXPECT_THROW(stream(10).skip(5, names), Error);
  EXPECT_THROW(stream(3).skip(4, names), Error);
}

TEST_F(SourcesTest, FilesThatAreNoFilesAreRefusedWithoutWaiting) {
  std::vector<std::byte> bytes;
  ASSERT_EQ(::mkfifo(path("pipe.jpg").c_str(), 0600), 0);
  write("folder.jpg/x");
  for (const std::string& name :
       {path("pipe.jpg"), path("folder.jpg"), path("gone.jpg"), write("empty.jpg", ""),
        std::string("/proc/self/mem"), std::string("/dev/null"), std::string("a\0b", 3)}) {
    EXPECT_THROW((void)read_file(name, bytes), Error) << name;
  }
  (void)read_file(write("big", std::string(100'000, 'y')), bytes);
  EXPECT_EQ(bytes.size(), 100'000U);
  (void)read_file("/proc/self/status", bytes);  // its size is said to be 0
  EXPECT_GT(bytes.size(), 0U);
}

TEST_F(SourcesTest, Counting) {
  write("d/a.jpg");
  write("d/b.jpg");
  write("t.tar", tar_end());
  const std::atomic<bool> stop = false;
  const auto count = [&](std::vector<std::string> inputs) {
    return count_inputs({.inputs = std::move(inputs), .shard_index = 1, .shard_count = 2}, pixels_,
                        &stop);
  };
  EXPECT_EQ(count({path("d"), path("d/a.jpg")}), 1U);
  EXPECT_EQ(count({path("d"), path("t.tar")}), std::nullopt);
  EXPECT_EQ(count({"-"}), std::nullopt);
  // A list in a pipe is the job's alone to read.
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(count({"@" + path("pipe")}), std::nullopt);
}

}  // namespace
}  // namespace fovea::pipeline::testing
