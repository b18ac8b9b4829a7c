// Files that are written and summed at once: by parts of all sizes, and when the system refuses.
#include "pipeline/shard_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>

#include "fovea/error.hpp"
#include "io/folder.hpp"
#include "support.hpp"

namespace {

using Range = std::pair<std::int64_t, std::int64_t>;  // offset, bytes

/// What the program asked the system to begin to write.
std::vector<Range> begun;
int answer = 0;

}  // namespace

// In the place of the system's.
extern "C" int sync_file_range(int /*fd*/, off_t offset, off_t bytes, unsigned flags) {
  EXPECT_EQ(flags, unsigned{SYNC_FILE_RANGE_WRITE});
  begun.emplace_back(offset, bytes);
  errno = ENOSYS;
  return answer;
}

namespace fovea::pipeline::testing {
namespace {

class SummedFileTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    begun.clear();
    answer = 0;
    std::mt19937 random(static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed()));
    bytes_.resize(kMiB * 6);
    std::ranges::generate(bytes_, [&] { return static_cast<char>(random()); });
  }

  /// A part of the random bytes.
  [[nodiscard]] std::string_view part(std::size_t from, std::size_t size) const {
    return std::string_view(bytes_).substr(from, size);
  }
  [[nodiscard]] SummedFile file() const {
    return {io::Folder::make(folder_), "rows", 0, io::Digest()};
  }

  static constexpr std::size_t kMiB = std::size_t{1} << 20;
  std::string bytes_;
};

TEST_F(SummedFileTest, SumsAreOfAllBytesWhateverTheSizeOfAWrite) {
  for (const int refused : {0, -1}) {  // a system that cannot begin early writes all the same
    answer = refused;
    begun.clear();
    SummedFile rows = file();
    std::string content;
    for (const std::string_view piece :
         {part(7, 3), part(1, 5 * kMiB), part(0, 0), part(9, kMiB - 1), part(2, 4 * kMiB),
          part(5, kMiB), part(3, 4 * kMiB - 1)}) {
      rows.write(piece);
      content += piece;
      ASSERT_EQ(rows.size(), content.size());
      ASSERT_EQ(rows.sum(), io::Digest::sha256_head(content));
    }
    EXPECT_TRUE(read_text(folder_ / "rows.partial") == content);
    const std::int64_t first = 3;
    const std::int64_t second = first + 6 * std::int64_t{kMiB} - 1;
    EXPECT_EQ(begun, (std::vector<Range>{{first, 5 * kMiB},
                                         {second, 4 * kMiB},
                                         {second + 4 * kMiB, kMiB},
                                         {second + 5 * kMiB, 4 * kMiB - 1}}));
  }
}

TEST_F(SummedFileTest, AWriteThatFailsIsAnErrorThatNamesTheFile) {
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const std::size_t size : {kMiB, 5 * kMiB}) {
    SummedFile rows = file();
    const struct rlimit small{kMiB / 2, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    std::string said;
    try {
      rows.write(part(0, size));
    } catch (const Error& error) {
      said = error.what();
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_PRED2(contains, said, "rows.partial: cannot write: File too large");
  }
  (void)std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace fovea::pipeline::testing
