// The small tokenizer: the same every time, of the size that was asked for, found by BPE.
#include "text/small_tokenizer.hpp"

#include <set>

#include "core/utf8.hpp"
#include "text/tokenizer.hpp"
#include "vocabulary_files.hpp"

namespace fovea::text {
namespace {

TEST(SmallTokenizerTest, IsTheSameEveryTime) {
  const SmallFolder first;
  const SmallFolder second;
  std::set<std::filesystem::path> names;
  for (const auto& entry : std::filesystem::directory_iterator(first.path())) {
    names.insert(entry.path().filename());
    EXPECT_EQ(read_text(entry.path()), read_text(second.path() / entry.path().filename()));
  }
  EXPECT_EQ(names,
            (std::set<std::filesystem::path>(kTokenizerFiles.begin(), kTokenizerFiles.end())));
}

TEST(SmallTokenizerTest, HasTheSizeThatWasAskedFor) {
  for (const std::int64_t size : {1300, 2500}) {
    EXPECT_EQ(Tokenizer(SmallFolder(size).path()).vocabulary(), size);
  }
  const TemporaryFolder folder;
  for (const std::int64_t size : {-1, 0, 300, 1'000'000}) {
    EXPECT_TRUE(
        contains(error_of([&] { write_small_tokenizer(folder.path(), size); }), "expected"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SmallTokenizerTest, CutsWordsOfItsCorpusIntoFewPieces) {
  EXPECT_TRUE(utf8_characters(small_corpus()).has_value());
  const SmallFolder folder;
  const Tokenizer tokenizer(folder.path());
  EXPECT_LE(tokenizer.tokens("a photo of a cat on the street").size(), 9U);
  for (const std::int32_t id : tokenizer.tokens(small_corpus())) {
    EXPECT_GE(id, 261);  // nothing is taken apart into bytes
  }
}

TEST(TrainTest, MergesTheMostFrequentPair) {
  const TrainedPieces pieces = train_bpe("abab abab\nab ba cab", 4);
  // "▁" stands before every word: ab occurs 6 times, ▁ab (from ▁ and ab) 3 times, then ▁abab twice.
  EXPECT_EQ(pieces.merged, (std::vector<std::string>{"ab", "▁ab", "▁abab", "ba"}));
  EXPECT_EQ(pieces.characters, (std::vector<std::string>{"a", "b", "c", "▁"}));
  EXPECT_EQ(train_bpe("abab abab\nab ba cab", 1000).merged.size(), 7U);
  EXPECT_TRUE(train_bpe(" \n ", 5).merged.empty());
}

}  // namespace
}  // namespace fovea::text
