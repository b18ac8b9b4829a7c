// What folders and archives hold beside inputs: kinds, patterns, and counts.
#include "pipeline/left_out.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "pipeline/file_filter.hpp"
#include "pipeline/file_kinds.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/output.hpp"
#include "support.hpp"

namespace fovea::pipeline::testing {
namespace {

TEST(FileKinds, ComeFromEndingsAndNames) {
  const std::vector<std::pair<std::string_view, std::string_view>> expected{
      {"a.jpg", "image"},         {"IMG_1.HEIC", "image"},
      {"IMG_1.CR2", "image"},     {"a.b.dng", "image"},
      {".jpg", "image"},          {"a.avif", "image"},
      {"3d.MPO", "image"},        {"a.jps", "image"},
      {"IMG_1.insp", "image"},    {"a.apng", "image"},
      {"a.pns", "image"},         {"a.jfi", "image"},
      {"a.jif", "image"},         {"a.pjpeg", "image"},
      {"a.pjp", "image"},         {"a.dib", "image"},
      {"a.btf", "image"},         {"a.MOV", "video"},
      {"a.m4a", "audio"},         {"a.svg", "svg"},
      {"a.psd", "psd"},           {"a.AAE", "sidecars"},
      {"a.jpg.json", "json"},     {"a.pdf", "documents"},
      {"a.tar.gz", "archives"},   {"a.tar", "archives"},
      {"a.parquet", "data"},      {"Thumbs.db", "system"},
      {"desktop.ini", "system"},  {".DS_Store", "system"},
      {"._a.jpg", "system"},      {"Icon\r", "system"},
      {"README", "other"},        {"a.", "other"},
      {"a.jpg~", "other"},        {"\xff\xfe.xyz", "other"},
      {"new\nline.jpg", "image"}, {"", "other"},
  };
  for (const auto& [name, kind] : expected) {
    EXPECT_EQ(file_kind(name), kind) << name;
  }
  EXPECT_EQ(folder_kind("@eaDir"), "thumbnails");
  EXPECT_EQ(folder_kind("$RECYCLE.BIN"), "deleted");
  EXPECT_EQ(folder_kind("System Volume Information"), "system");
  EXPECT_EQ(folder_kind("thumbnails of Rome"), "");
}

TEST(GlobPattern, MatchesNamesAndPaths) {
  const auto matches = [](std::string_view pattern, std::string_view path, bool folder = false) {
    return GlobPattern(pattern).matches(path, folder);
  };
  EXPECT_TRUE(matches("*.gif", "a.gif"));
  EXPECT_TRUE(matches("*.gif", "x/y/A.GIF"));  // at any depth, in any case
  EXPECT_FALSE(matches("*.gif", "a.gif/b.jpg"));
  EXPECT_TRUE(matches("b?[0-9].jpg", "x/bx7.jpg"));
  EXPECT_TRUE(matches("/a.jpg", "a.jpg"));
  EXPECT_FALSE(matches("/a.jpg", "x/a.jpg"));
  EXPECT_TRUE(matches("x/a.jpg", "x/a.jpg"));
  EXPECT_FALSE(matches("x/a.jpg", "y/x/a.jpg"));
  EXPECT_FALSE(matches("x/*", "x/y/a.jpg"));  // a star stays within a name
  EXPECT_TRUE(matches("x/**", "x/y/a.jpg"));
  EXPECT_TRUE(matches("x/**/a.jpg", "x/a.jpg"));
  EXPECT_TRUE(matches("x/**/z/**/a.jpg", "x/z/y/z/q/a.jpg"));
  EXPECT_FALSE(matches("x/**/z/a.jpg", "x/z/y/a.jpg"));
  EXPECT_TRUE(matches("./x/a.jpg", "x/a.jpg"));
  EXPECT_TRUE(matches("raw/", "x/raw", true));
  EXPECT_FALSE(matches("raw/", "x/raw", false));
  EXPECT_TRUE(matches(".*", ".a"));
  EXPECT_TRUE(matches("*", ".a"));
  EXPECT_TRUE(matches("a\\*", "a*"));
  EXPECT_FALSE(matches("a\\*", "ab"));
  for (const std::string_view nothing : {"", "/", "./", "//"}) {
    EXPECT_THROW(GlobPattern{nothing}, Error) << nothing;
  }
  EXPECT_THROW(FileFilter(InputOptions{.exclude = {"{0..99999}"}}), Error);
}

class LeftOutTest : public FolderTest {
 protected:
  // The names below the folder "d", or of the members of an archive, relative to it.
  Names names(InputOptions options, const std::string& input) {
    left_out_ = LeftOut(output_);
    options.inputs = {path(input)};
    const auto source = make_source(options, {.height = 2, .width = 2}, &left_out_);
    Names found = names_of(drain(*source));
    for (std::string& name : found) {
      name = name.substr(path(input).size() + 1);
    }
    return found;
  }
  [[nodiscard]] std::string counted() const { return describe(left_out_.counts()); }

  std::string output_;
  LeftOut left_out_;
};

TEST_F(LeftOutTest, HiddenFilesAndThumbnailsAreSkippedUnlessAskedFor) {
  for (const char* name : {"d/a.jpg", "d/.b.jpg", "d/.git/c.jpg", "d/.git/objects/d",
                           "d/@eaDir/e.jpg", "d/s/.thumbnails/f.jpg", "d/#recycle/g.jpg",
                           "d/s/._a.jpg", "d/.DS_Store", "d/h.mov", "d/.hidden.mov"}) {
    write(name);
  }
  EXPECT_EQ(names({}, "d"), (Names{"a.jpg"}));
  EXPECT_EQ(counted(), "4 hidden, 2 system, 2 thumbnails, 1 deleted, 1 video");
  EXPECT_EQ(names({.hidden = true}, "d"), (Names{"#recycle/g.jpg", ".b.jpg", ".git/c.jpg",
                                                 "@eaDir/e.jpg", "a.jpg", "s/.thumbnails/f.jpg"}));
  EXPECT_EQ(counted(), "2 system, 2 video, 1 other");
  // What is itself named is read.
  EXPECT_EQ(names({}, "d/.git"), (Names{"c.jpg"}));
  EXPECT_EQ(names({}, "d/@eaDir"), (Names{"e.jpg"}));
}

// Words for several files lose their s when there is one file; endings never do.
TEST_F(LeftOutTest, OneFileIsCountedInTheSingular) {
  for (const char* name : {"d/a.jpg", "d/b.heics", "d/c.dds", "d/d.icns", "d/e.zip", "d/f.pdf"}) {
    write(name);
  }
  EXPECT_EQ(names({}, "d"), (Names{"a.jpg"}));
  EXPECT_EQ(counted(), "1 archive, 1 dds, 1 document, 1 heics, 1 icns");
}

TEST_F(LeftOutTest, PatternsChoose) {
  for (const char* name : {"d/a.jpg", "d/b.png", "d/2019/a.jpg", "d/2019/raw/c.jpg",
                           "d/2019/raw/notes.txt", "d/2020/raw/d.jpg", "d/x.mov"}) {
    write(name);
  }
  EXPECT_EQ(names({.exclude = {"raw/"}}, "d"), (Names{"2019/a.jpg", "a.jpg", "b.png"}));
  EXPECT_EQ(counted(), "3 excluded, 1 video");
  EXPECT_EQ(names({.exclude = {"2019/**/raw", "*.{png,gif}"}}, "d"),
            (Names{"2019/a.jpg", "2020/raw/d.jpg", "a.jpg"}));
  EXPECT_EQ(counted(), "3 excluded, 1 video");
  EXPECT_EQ(names({.include = {"a.*"}}, "d"), (Names{"2019/a.jpg", "a.jpg"}));
  EXPECT_EQ(counted(), "3 excluded, 1 txt, 1 video");
  EXPECT_EQ(names({.exclude = {"a.jpg"}, .include = {"2019", "2020/**/d.*"}}, "d"),
            (Names{"2019/raw/c.jpg", "2020/raw/d.jpg"}));
  EXPECT_EQ(counted(), "3 excluded, 1 txt, 1 video");
  // Patterns do not concern what is itself named.
  write("list.txt", path("d/a.jpg") + "\n");
  const auto source =
      make_source({.inputs = {path("d/b.png"), "@" + path("list.txt")}, .exclude = {"*"}},
                  {.height = 2, .width = 2});
  EXPECT_EQ(names_of(drain(*source)), (Names{path("d/b.png"), path("d/a.jpg")}));
}

TEST_F(LeftOutTest, LinksInWhatIsLeftOutAreNotFollowed) {
  write("elsewhere/b.jpg");
  write("d/.h/a.jpg");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "d/.h/link");
  fs::create_directory_symlink(folder_ / "d", folder_ / "d/.h/loop");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "d/.link");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "d/seen");
  fs::create_symlink("nowhere", folder_ / "d/dangling");
  EXPECT_EQ(names({}, "d"), (Names{"seen/b.jpg"}));
  EXPECT_EQ(counted(), "4 hidden, 1 other");
}

TEST_F(LeftOutTest, MembersOfArchivesCountAlike) {
  write("x.tar", tar_member("./a.jpg", "1") + tar_member("./a.json", "{}") +
                     tar_member("./.b.jpg", "2") + tar_member("s/@eaDir/c.jpg", "3") +
                     tar_member("s/d.seg.png", "4") + tar_member("../e.jpg", "5") +
                     tar_member("._a.jpg", "6") + tar_end());
  EXPECT_EQ(names({}, "x.tar"), (Names{"./a.jpg", "s/d.seg.png", "../e.jpg"}));
  EXPECT_EQ(counted(), "1 hidden, 1 json, 1 system, 1 thumbnail");
  EXPECT_EQ(names({.image_key = "seg.png"}, "x.tar"), (Names{"s/d.seg.png"}));
  EXPECT_EQ(counted(), "2 excluded, 1 hidden, 1 json, 1 system, 1 thumbnail");
  EXPECT_EQ(names({.exclude = {"s/*"}}, "x.tar"), (Names{"./a.jpg", "../e.jpg"}));
  EXPECT_EQ(names({.hidden = true}, "x.tar").size(), 5U);
}

// Later runs of a job find its own files, earlier ones do not: they must count the same.
TEST_F(LeftOutTest, FilesOfTheOutputAreNotCounted) {
  for (const char* name :
       {"d/a.jpg", "d/manifest.json", "d/checksums.jsonl", "d/errors.jsonl", "d/.lock",
        "d/embeddings-00000.npy", "d/embeddings-00001.npy.partial", "d/index-00000.jsonl",
        "d/retrying.jsonl", "d/manifest.json.partial", "d/mine.json", "d/s/manifest.json"}) {
    write(name);
  }
  output_ = path("d");
  EXPECT_EQ(names({}, "d"), (Names{"a.jpg"}));
  EXPECT_EQ(counted(), "2 json");
  for (const char* name : {"f/a.jpg", "f/x.npy", "f/x.index.jsonl", "f/x.errors.jsonl.partial",
                           "f/y.npy", "f/manifest.json"}) {
    write(name);
  }
  output_ = path("f/x.npy");
  EXPECT_EQ(names({}, "f"), (Names{"a.jpg"}));
  EXPECT_EQ(counted(), "1 data, 1 json");
}

TEST_F(LeftOutTest, ImagesThatLostTheirRangeAreCountedThroughAllRuns) {
  const auto prepare = [] {
    return [](Item& item, std::span<std::uint8_t> pixels, Slot& slot, const Limits& limits) {
      number_prepare()()(item, pixels, slot, limits);
      slot.lost_range = item.number % 10 == 0;
    };
  };
  std::uint64_t counted = 0;
  for (const int most : {5, 100}) {  // the first run is cut short
    FolderOutput output(folder_, test_identity(), false);
    InputStream inputs(std::make_unique<CountingSource>(200), 0, 1);
    inputs.skip(output.state().inputs, output.state().names);
    output.begin();
    std::atomic<bool> stop = false;
    RunOptions options = test_run_options();
    options.control.stop = &stop;
    int batches = 0;
    const Encode encode = [&](auto patches, auto images, auto out, const OnComputed& on_computed) {
      telling_encode()(patches, images, out, on_computed);
      stop = ++batches == most;
    };
    const JobReport report = run_job(options, inputs, prepare, [&] { return encode; }, output);
    EXPECT_EQ(report.interrupted, most == 5);
    counted += report.images_with_lost_range;
    if (!report.interrupted) {
      output.finish();
    }
  }
  std::uint64_t expected = 0;
  for (std::uint64_t number = 0; number < 200; number += 10) {
    expected += damaged(number) ? 0 : 1;
  }
  EXPECT_EQ(counted, expected);
  const Manifest manifest = parse_manifest(read_text(folder_ / "manifest.json"));
  EXPECT_TRUE(manifest.state.finished);
  EXPECT_EQ(manifest.state.lost_range, expected);
}

}  // namespace
}  // namespace fovea::pipeline::testing
