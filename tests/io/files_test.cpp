// Atomic files, files read by position, and .npy headers.
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/file.hpp"
#include "io/file_lock.hpp"
#include "io/folder.hpp"
#include "io/npy.hpp"
#include "io/partial_file.hpp"

namespace fovea::io {
namespace {

class FilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "fovea-io-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string read(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::filesystem::path folder_;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST_F(FilesTest, AtomicFileAppearsOnlyOnCommit) {
  const auto path = folder_ / "out";
  {
    AtomicFile file(path);
    file.write("dropped");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  AtomicFile file(path);
  file.write("hello");
  file.write_at(0, bytes_of("J"));
  EXPECT_FALSE(std::filesystem::exists(path));
  file.commit();
  EXPECT_EQ(read(path), "Jello");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FilesTest, AtomicFileRefusesASecondWriter) {
  const auto path = folder_ / "out";
  {
    AtomicFile first(path);
    first.write("first");
    EXPECT_THROW(AtomicFile{path}, Error);
    first.commit();
  }
  EXPECT_EQ(read(path), "first");
  std::ofstream(folder_ / "out.partial") << "left by a killed writer";
  write_file_atomically(path, "second");
  EXPECT_EQ(read(path), "second");
}

TEST_F(FilesTest, NpyRoundTripAndFixedHeaderSize) {
  const std::string header = npy_header(DType::kF32, {2, 3});
  EXPECT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(header.size(), npy_header(DType::kF32, {123456789, 3}).size());
  const float values[6] = {0, 1, 2, 3, 4, 5};
  AtomicFile file(folder_ / "a.npy");
  file.write(header);
  file.write(std::as_bytes(std::span(values)));
  file.commit();
  const NpyFile npy(folder_ / "a.npy");
  EXPECT_EQ(npy.shape(), (Shape{2, 3}));
  EXPECT_EQ(npy.dtype(), DType::kF32);
  std::array<float, 2> read{};
  npy.read(4, std::span<float>(read));
  EXPECT_EQ(read, (std::array<float, 2>{4, 5}));
}

TEST_F(FilesTest, NpyRejectsMalformedFiles) {
  const std::string good = npy_header(DType::kU8, {4}) + "abcd";
  EXPECT_EQ(parse_npy(bytes_of(good), good.size()).shape, (Shape{4}));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string bad[] = {"",
                             good.substr(0, 9),
                             good.substr(0, 40),
                             good + "x",
                             good.substr(0, good.size() - 1),
                             replaced("|u1", "<i8"),
                             replaced("|u1", "|O8"),
                             replaced("False", "True "),
                             replaced("(4,)", "(5,)"),
                             replaced("(4,)", "(-4)"),
                             replaced("shape", "shale"),
                             replaced("\x01", "\x07"),
                             replaced("}", " "),
                             replaced("(4,), }", "(4611686018427387904,4611686018427387904)}")};
  for (const std::string& text : bad) {
    EXPECT_THROW((void)parse_npy(bytes_of(text), text.size()), Error) << text;
  }
}

TEST_F(FilesTest, NpyRejectsDataThatItsTypeCannotBeReadFrom) {
  std::string header = npy_header(DType::kF32, {1});
  const auto parse = [&] { return parse_npy(bytes_of(header), header.size() + 4); };
  EXPECT_EQ(parse().shape, (Shape{1}));
  header.insert(header.size() - 1, " ");  // one byte longer, and says so
  header[8] = static_cast<char>(header[8] + 1);
  EXPECT_THROW((void)parse(), Error);
}

TEST_F(FilesTest, PartialFileGoesOnFromAKnownLength) {
  const auto folder = std::make_shared<const Folder>(folder_);
  const auto path = folder_ / "out";
  {
    PartialFile file(folder, "out", 0);
    file.write("hello, lost");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    PartialFile file(folder, "out", 5);  // what came after the last record is dropped
    EXPECT_EQ(file.size(), 5U);
    file.write(" you");
    file.write_at(0, bytes_of("J"));
    file.commit();
  }
  EXPECT_EQ(read(path), "Jello you");
  {
    PartialFile file(folder, "out", 5);  // finished, but the record says otherwise
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit();
  }
  EXPECT_EQ(read(path), "Jello");
  EXPECT_THROW(PartialFile(folder, "out", 6), Error);
  EXPECT_THROW(PartialFile(folder, "absent", 1), Error);
  EXPECT_THROW(PartialFile(folder, "no/folder", 0), Error);
}

// Whatever stands where a temporary file is to be: it is refused by name and left as it was.
TEST_F(FilesTest, NothingIsWrittenThroughLinks) {
  const auto folder = std::make_shared<const Folder>(folder_);
  const auto victim = folder_ / "victim";
  const auto place = folder_ / "out.partial";
  const std::function<void()> writers[] = {
      [&] { AtomicFile(folder_ / "out"); },
      [&] { PartialFile(folder, "out", 0); },
      [&] { PartialFile(folder, "out", 3); },
      [&] { FileLock(*folder, "out.partial", [] {}); },
  };
  const std::function<void()> obstacles[] = {
      [&] { std::filesystem::create_symlink("victim", place); },
      [&] { std::filesystem::create_symlink("nowhere", place); },
      [&] { std::filesystem::create_hard_link(victim, place); },
      [&] { ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0); },
      [&] { std::filesystem::create_directory(place); },
  };
  for (const auto& obstruct : obstacles) {
    for (const auto& write : writers) {
      std::ofstream(victim) << "precious";
      obstruct();
      try {
        write();
        ADD_FAILURE() << "written";
      } catch (const Error& error) {
        EXPECT_NE(std::strstr(error.what(), "out.partial"), nullptr) << error.what();
      }
      EXPECT_EQ(read(victim), "precious");
      EXPECT_FALSE(std::filesystem::exists(folder_ / "nowhere"));
      std::filesystem::remove(place);
    }
  }
}

TEST_F(FilesTest, FolderStaysTheOneItOpened) {
  std::filesystem::create_directories(folder_ / "a");
  const auto held = Folder::make(folder_ / "a/b");
  EXPECT_TRUE(held->is_in_place());
  std::filesystem::rename(folder_ / "a/b", folder_ / "moved");
  EXPECT_FALSE(held->is_in_place());
  std::filesystem::create_directory(folder_ / "other");
  std::filesystem::create_directory_symlink(folder_ / "other", folder_ / "a/b");
  EXPECT_FALSE(held->is_in_place());
  write_file_atomically(held, "file", "content");
  EXPECT_EQ(read(folder_ / "moved/file"), "content");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "other"));
  EXPECT_EQ(held->list(), std::vector<std::string>{"file"});
  EXPECT_EQ(held->list().size(), 1U);  // every time from the beginning
  held->rename("file", "renamed");
  EXPECT_TRUE(held->has("renamed"));
  EXPECT_FALSE(held->examine("file"));
  held->remove("renamed");
  held->remove("renamed");
  EXPECT_FALSE(held->has("renamed"));
  EXPECT_THROW(Folder{folder_ / "absent"}, Error);
  EXPECT_THROW((void)Folder::make("/proc/absent"), Error);
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(FilesTest, FileNamesWhatItCannotOpen) {
  EXPECT_SAYS(error_of([&] { const File file(folder_ / "absent"); }), "absent: cannot open");
  EXPECT_SAYS(error_of([&] { const File file(folder_); }), folder_.native() + ": is a folder");
}

// A map of such a file would be a signal.
TEST_F(FilesTest, FileThatShrinksIsAnError) {
  const auto path = folder_ / "array";
  write_file_atomically(path, std::string(10000, 'x'));
  const File file(path);
  std::vector<std::byte> bytes(4096);
  file.read_at(5904, bytes);
  EXPECT_EQ(bytes.back(), std::byte{'x'});
  std::filesystem::resize_file(path, 6000);
  const std::string error = error_of([&] { file.read_at(5904, bytes); });
  EXPECT_SAYS(error, path.native() + ": shrank to 6000 bytes");
  EXPECT_SAYS(error, "it had 10000");
  EXPECT_EQ(file.read_some(5904, bytes), 96U);
}

// The memory of this process at address 0: a regular file whose every read fails as a disk does.
TEST_F(FilesTest, FileThatCannotBeReadIsAnError) {
  const File file("/proc/self/mem");
  std::vector<std::byte> bytes(16);
  EXPECT_SAYS(error_of([&] { file.read_at(0, bytes); }),
              "/proc/self/mem: cannot read 16 bytes at byte 0: Input/output error");
}

TEST_F(FilesTest, FileOpenedAgainMustBeTheSame) {
  const auto path = folder_ / "array";
  write_file_atomically(path, "first");
  const File::Version version = File(path).version();
  EXPECT_EQ(File(path, version).size(), 5U);
  write_file_atomically(path, "other one");
  const std::string error = error_of([&] { const File again(path, version); });
  EXPECT_SAYS(error, path.native() + ": changed while it was read");
  EXPECT_SAYS(error, "9 bytes now, 5 before");
}

TEST_F(FilesTest, SmallFilesAreReadWholeUpToTheirLimit) {
  const auto path = folder_ / "config";
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kMaxSmallFileBytes}) {
    const std::string text(size, 'x');
    write_file_atomically(path, text);
    EXPECT_EQ(read_small_file(path), text);
  }
  write_file_atomically(path, std::string(kMaxSmallFileBytes + 1, 'x'));
  EXPECT_SAYS(error_of([&] { (void)read_small_file(path); }),
              "the file is too large: 4194305 bytes");
  EXPECT_SAYS(read_small_file("/proc/self/maps"), "\n");  // whose size is said to be 0
}

TEST_F(FilesTest, NpyHeaderHasALimit) {
  std::string text = "\x93NUMPY";
  text += std::string("\x02\x00\x00\x00\x10\x00", 6);  // format 2.0, a header of 1 MiB
  text.resize(12 + (std::size_t{1} << 20), ' ');
  write_file_atomically(folder_ / "a.npy", text);
  EXPECT_SAYS(error_of([&] { const NpyFile npy(folder_ / "a.npy"); }),
              "the header has 1048576 bytes");
}

}  // namespace
}  // namespace fovea::io
