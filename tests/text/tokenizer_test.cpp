// The tokenizer on folders: length, padding, special tokens, what is refused, several threads.
#include "text/tokenizer.hpp"

#include <cstdint>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "text/model_proto.hpp"
#include "vocabulary_files.hpp"

namespace fovea::text {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kLength = 64;

TEST(TokenizerTest, EndsAndPads) {
  const SmallFolder folder;
  const Tokenizer tokenizer(folder.path());
  EXPECT_EQ(tokenizer.vocabulary(), kSmallVocabulary);
  EXPECT_EQ(tokenizer.eos(), 1);
  EXPECT_EQ(tokenizer.pad(), 0);
  EXPECT_EQ(tokenizer.piece(2), "<bos>");
  EXPECT_EQ(tokenizer.trained_clean(), TextClean::kLower);
  const Ids tokens = tokenizer.tokens("a photo of a cat");
  ASSERT_GT(tokens.size(), 3U);
  ASSERT_LT(tokens.size(), 16U);
  EXPECT_NE(tokens.front(), 2);  // no <bos>
  std::string joined;
  for (const std::int32_t id : tokens) {
    joined += tokenizer.piece(id);
  }
  EXPECT_EQ(joined, "a▁photo▁of▁a▁cat");
  for (const std::int64_t length : {kLength, static_cast<std::int64_t>(tokens.size() + 1)}) {
    Ids expected = tokens;
    expected.push_back(1);
    expected.resize(static_cast<std::size_t>(length), 0);
    EXPECT_EQ(tokenizer.encode("a photo of a cat", length), expected);
  }
  Ids empty(kLength, 0);
  empty.front() = 1;
  EXPECT_EQ(tokenizer.encode("", kLength), empty);
  EXPECT_EQ(tokenizer.encode(" \n ", kLength), empty);
}

TEST(TokenizerTest, CutsOffLongTexts) {
  const SmallFolder folder;
  const Tokenizer tokenizer(folder.path());
  std::string text;
  for (int word = 0; word < 200; ++word) {
    text += "bicycle ";
  }
  Ids expected = tokenizer.tokens(text);
  for (const std::size_t length :
       {std::size_t{64}, std::size_t{16}, std::size_t{2}, std::size_t{1}}) {
    expected.resize(length - 1);
    expected.push_back(1);
    EXPECT_EQ(tokenizer.encode(text, static_cast<std::int64_t>(length)), expected);
    expected.pop_back();
  }
  EXPECT_TRUE(contains(error_of([&] { (void)tokenizer.encode("a", 0); }), "at least 1"));
}

TEST(TokenizerTest, CleansAsAsked) {
  const SmallFolder folder;
  const Tokenizer tokenizer(folder.path());
  const Ids plain = tokenizer.tokens("dont stop now");
  EXPECT_EQ(tokenizer.tokens("  Dont\tSTOP\n\nnow "), plain);
  EXPECT_EQ(tokenizer.tokens("Dont STOP now", TextClean::kLower), plain);
  EXPECT_EQ(tokenizer.tokens("Don't_, STOP! now.", TextClean::kCanonicalize), plain);
  EXPECT_NE(tokenizer.tokens("Don't STOP now"), plain);
  EXPECT_NE(tokenizer.tokens("Dont stop now", TextClean::kNone), plain);
  EXPECT_NE(tokenizer.tokens("dont  stop now", TextClean::kNone), plain);
  EXPECT_EQ(tokenizer.tokens("dont stop now", TextClean::kNone), plain);
  EXPECT_TRUE(contains(error_of([&] { (void)tokenizer.tokens("a", static_cast<TextClean>(9)); }),
                       "invalid TextClean"));
}

TEST(TokenizerTest, NamesOfSpecialTokensAreText) {
  const SmallFolder folder;
  const Tokenizer tokenizer(folder.path());
  for (const char* name : {"<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<0x0A>"}) {
    for (const std::int32_t id : tokenizer.tokens(name)) {
      EXPECT_GE(id, 261) << name;
    }
  }
  EXPECT_EQ(tokenizer.tokens(std::string(1, '\0')), Ids{5});  // the byte, not the end of the text
  EXPECT_EQ(tokenizer.tokens("\x7f"), Ids{5 + 0x7f});
}

TEST(TokenizerTest, RefusesWhatIsNoText) {
  const SmallFolder folder;
  const Tokenizer tokenizer(folder.path());
  for (const std::string text :
       {"caf\xe9", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\x80", "\xe2\x96"}) {
    EXPECT_TRUE(contains(error_of([&] { (void)tokenizer.tokens(text); }), "not UTF-8")) << text;
  }
  EXPECT_TRUE(contains(error_of([&] { (void)tokenizer.tokens("caf\xe9!"); }), "byte 3"));
  EXPECT_EQ(tokenizer.encode(std::string(kMaxTextBytes, ' '), kLength).front(), 1);
  EXPECT_TRUE(contains(
      error_of([&] { (void)tokenizer.tokens(std::string(kMaxTextBytes + 1, ' ')); }), "too long"));
}

TEST(TokenizerTest, ThreadsShareIt) {
  const SmallFolder folder;
  const Tokenizer tokenizer(folder.path());
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int index = 0; index < 40; ++index) {
    texts.push_back(fmt::format("photo {} of a cat, κόκκινο 猫 {}", index, index * index));
    expected.push_back(tokenizer.encode(texts.back(), kLength));
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t index = 0; index < texts.size(); ++index) {
        const std::size_t chosen = (index + 10 * thread) % texts.size();
        wrong[thread] += tokenizer.encode(texts[chosen], kLength) == expected[chosen] ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(TokenizerTest, TakesTheFirstFileThatIsThere) {
  const TemporaryFolder folder;
  EXPECT_TRUE(contains(error_of([&] { const Tokenizer missing(folder.path()); }), "no tokenizer"));
  const SmallFolder small;
  write_text(folder.path() / "tokenizer.json", read_text(small.path() / "tokenizer.json"));
  EXPECT_EQ(Tokenizer(folder.path()).vocabulary(), kSmallVocabulary);
  write_text(folder.path() / "spiece.model",
             write_model_proto(unigram_of({{.text = "▁a", .score = -1.0F}})));
  EXPECT_EQ(Tokenizer(folder.path()).vocabulary(), 4);
  EXPECT_EQ(Tokenizer(folder.path()).trained_clean(), TextClean::kCanonicalize);
  write_text(folder.path() / "tokenizer.model", write_model_proto(bpe_of({"a"})));
  EXPECT_EQ(Tokenizer(folder.path()).vocabulary(), 3 + 256 + 1);
  write_text(folder.path() / "tokenizer.model", write_model_proto(unigram_of({{.text = "a"}})));
  EXPECT_TRUE(
      contains(error_of([&] { const Tokenizer unigram(folder.path()); }), "called spiece.model"));
  std::filesystem::remove(folder.path() / "tokenizer.model");
  write_text(folder.path() / "spiece.model", write_model_proto(bpe_of({"a"})));
  EXPECT_TRUE(
      contains(error_of([&] { const Tokenizer bpe(folder.path()); }), "called tokenizer.model"));
}

TEST(TokenizerTest, ReadsTheEndAndThePaddingOfTheConfiguration) {
  const SmallFolder folder;
  const auto special_tokens = [&](const char* config) {
    write_text(folder.path() / "tokenizer_config.json", config);
    const Tokenizer tokenizer(folder.path());
    return std::pair(tokenizer.eos(), tokenizer.pad());
  };
  EXPECT_EQ(special_tokens("{}"), std::pair(1, 0));
  EXPECT_EQ(special_tokens(R"({"tokenizer_class": "GemmaTokenizer", "do_lower_case": false})"),
            std::pair(1, 0));
  EXPECT_EQ(special_tokens(R"({"eos_token": "<bos>", "pad_token": {"content": "<eos>"}})"),
            std::pair(2, 1));
  EXPECT_EQ(special_tokens(R"({"eos_token": null})"), std::pair(1, 0));
  EXPECT_TRUE(contains(error_of([&] { (void)special_tokens(R"({"eos_token": "</s>"})"); }),
                       "no piece \"</s>\""));
  EXPECT_TRUE(contains(error_of([&] { (void)special_tokens(R"({"pad_token": 3})"); }),
                       "pad_token is not a string"));
  EXPECT_TRUE(contains(error_of([&] { (void)special_tokens("[]"); }), "tokenizer_config.json"));
}

TEST(TokenizerTest, SigLipTextsBeginWithASpace) {
  const TemporaryFolder folder;
  write_text(folder.path() / "spiece.model",
             write_model_proto(unigram_of({{.text = "▁", .score = -2.0F},
                                           {.text = "▁a", .score = -1.0F},
                                           {.text = "▁cat", .score = -1.5F},
                                           {.text = "cat", .score = -3.0F},
                                           {.text = "▁▁", .score = -4.0F},
                                           {.text = "<", .score = -5.0F},
                                           {.text = ">", .score = -5.0F},
                                           {.text = "unk", .score = -5.0F}})));
  const Tokenizer tokenizer(folder.path());
  EXPECT_EQ(tokenizer.tokens("A cat!"), (Ids{4, 5}));
  EXPECT_EQ(tokenizer.tokens("cat"), Ids{5});
  EXPECT_EQ(tokenizer.tokens("a▁cat"), (Ids{4, 5}));  // the sign is a space
  EXPECT_EQ(tokenizer.tokens("cat dog dog"), (Ids{5, 3, 2, 3, 2}));
  // What SiglipTokenizer gives: the space that punctuation leaves stays behind the one that is put
  // before the text.
  EXPECT_EQ(tokenizer.tokens("! cat"), (Ids{3, 5}));
  EXPECT_EQ(tokenizer.encode("a", 4), (Ids{4, 1, 1, 1}));
}

}  // namespace
}  // namespace fovea::text
