// tokenizer.json gives what tokenizer.model gives; other kinds of tokenizers are refused by name.
#include "text/tokenizer_json.hpp"

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/model_proto.hpp"
#include "text/tokenizer.hpp"
#include "vocabulary_files.hpp"

namespace fovea::text {
namespace {

using nlohmann::json;

json small_json() {
  static const json document = [] {
    const SmallFolder folder;
    return json::parse(read_text(folder.path() / "tokenizer.json"));
  }();
  return document;
}

/// A document with a vocabulary of all bytes and these pieces, of which `merges` are made.
json document_of(const std::vector<std::string>& texts,
                 const std::vector<std::pair<std::string, std::string>>& merges) {
  json document = small_json();
  json vocabulary;
  const Vocabulary pieces = bpe_of(texts);
  document["added_tokens"] = json::array();
  for (std::size_t id = 0; id < pieces.pieces.size(); ++id) {
    vocabulary[pieces.pieces[id].text] = id;
    if (id < 3) {
      document["added_tokens"].push_back(
          {{"id", id}, {"content", pieces.pieces[id].text}, {"special", true}});
    }
  }
  document["model"]["vocab"] = vocabulary;
  document["model"]["merges"] = merges;
  return document;
}

std::string refusal(const json& document) {
  return error_of([&] { (void)read_tokenizer_json(document.dump(), "some.json"); });
}

Tokenizer load(const TemporaryFolder& folder, const json& document) {
  write_text(folder.path() / "tokenizer.json", document.dump());
  return Tokenizer(folder.path());
}

TEST(TokenizerJsonTest, GivesWhatTheModelGives) {
  const SmallFolder folder;
  const Tokenizer model(folder.path());
  std::filesystem::remove(folder.path() / "tokenizer.model");
  const Tokenizer from_json(folder.path());
  EXPECT_EQ(from_json.vocabulary(), model.vocabulary());
  for (std::int32_t id = 0; id < kSmallVocabulary; ++id) {
    ASSERT_EQ(from_json.piece(id), model.piece(id));
  }
  for (const std::string text :
       {"", "a photo of two cats on a red bicycle", "фото красной кошки", "写真 😀 คน <eos> <mask>",
        "aaaaaaaaaaaaa bbbb !!!!!!", "x\x01\x7f"}) {
    EXPECT_EQ(from_json.tokens(text), model.tokens(text)) << text;
    EXPECT_EQ(from_json.tokens(text, TextClean::kNone), model.tokens(text, TextClean::kNone))
        << text;
  }
}

TEST(TokenizerJsonTest, TakesFormsOfSeveralVersions) {
  const Vocabulary expected = read_tokenizer_json(small_json().dump(), "x");
  const auto same = [&](const json& document) {
    return write_model_proto(read_tokenizer_json(document.dump(), "x")) ==
           write_model_proto(expected);
  };
  json document = small_json();
  for (json& merge : document["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  EXPECT_TRUE(same(document));
  document = small_json();
  document["normalizer"] = small_json()["normalizer"]["normalizers"][1];  // GemmaTokenizer's
  EXPECT_TRUE(same(document));
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", {document["normalizer"]}}};
  EXPECT_TRUE(same(document));
  document["pre_tokenizer"] = nullptr;
  document["post_processor"] = nullptr;
  document.erase("decoder");
  document["model"].erase("ignore_merges");
  document["model"]["dropout"] = 0.0;
  document["model"]["continuing_subword_prefix"] = "";
  EXPECT_TRUE(same(document));
}

TEST(TokenizerJsonTest, NamesWhatItDoesNotSupport) {
  struct Case {
    std::string part;  // that the message names
    std::function<void(json&)> change;
  };
  const std::vector<Case> cases{
      {"the model is Unigram", [](json& d) { d["model"]["type"] = "Unigram"; }},
      {"the model is WordPiece", [](json& d) { d["model"]["type"] = "WordPiece"; }},
      {"the model is of an unknown kind", [](json& d) { d["model"].erase("type"); }},
      {"the model is none", [](json& d) { d.erase("model"); }},
      {"byte_fallback of the model is false", [](json& d) { d["model"]["byte_fallback"] = false; }},
      {"byte_fallback of the model is null", [](json& d) { d["model"].erase("byte_fallback"); }},
      {"dropout of the model is 0.1", [](json& d) { d["model"]["dropout"] = 0.1; }},
      {"end_of_word_suffix", [](json& d) { d["model"]["end_of_word_suffix"] = "</w>"; }},
      {"continuing_subword_prefix",
       [](json& d) { d["model"]["continuing_subword_prefix"] = "##"; }},
      {"ignore_merges", [](json& d) { d["model"]["ignore_merges"] = true; }},
      {"no unk_token", [](json& d) { d["model"]["unk_token"] = nullptr; }},
      {"NFKC", [](json& d) { d["normalizer"]["normalizers"][0] = {{"type", "NFKC"}}; }},
      {"the normalizer is null", [](json& d) { d["normalizer"] = nullptr; }},
      {"the normalizer is", [](json& d) { d["normalizer"]["normalizers"][1]["content"] = "_"; }},
      {"the pre-tokenizer is ByteLevel",
       [](json& d) { d["pre_tokenizer"] = {{"type", "ByteLevel"}}; }},
      {"the pre-tokenizer is Split",
       [](json& d) { d["pre_tokenizer"]["pattern"] = {{"Regex", "\\d"}}; }},
      {"has lstrip",
       [](json& d) {
         d["added_tokens"].push_back(
             {{"id", 300}, {"content", "▁"}, {"special", false}, {"lstrip", true}});
       }},
  };
  for (const Case& damaged : cases) {
    json document = small_json();
    damaged.change(document);
    const std::string error = refusal(document);
    EXPECT_TRUE(error.starts_with("some.json: unsupported tokenizer: ")) << error;
    EXPECT_TRUE(contains(error, damaged.part)) << damaged.part << ": " << error;
  }
}

TEST(TokenizerJsonTest, RefusesIdsThatAreNoVocabulary) {
  json hole = document_of({"a"}, {});
  hole["model"]["vocab"]["b"] = 300;
  EXPECT_TRUE(contains(refusal(hole), "no piece has id 260"));
  json twice = document_of({"a"}, {});
  twice["model"]["vocab"]["b"] = 259;
  EXPECT_TRUE(contains(refusal(twice), "same id, 259"));
  json large = document_of({"a"}, {});
  large["model"]["vocab"]["b"] = 1'048'576;
  EXPECT_TRUE(contains(refusal(large), "less than 1048576"));
  for (const json& id : {json(-1), json(1.5), json("1"), json(nullptr), json::array()}) {
    json odd = document_of({"a"}, {});
    odd["model"]["vocab"]["a"] = id;
    EXPECT_TRUE(contains(refusal(odd), "some.json")) << id;
  }
  json added = document_of({"a"}, {});
  added["added_tokens"].push_back({{"id", 259}, {"content", "z"}});
  EXPECT_TRUE(contains(refusal(added), "same id, 259"));
  json bytes = document_of({"a"}, {});
  bytes["model"]["vocab"].erase("<0xF0>");
  bytes["model"]["vocab"]["y"] = 3 + 0xf0;
  EXPECT_TRUE(contains(refusal(bytes), "no piece <0xF0>"));
  std::string two_keys = document_of({"a"}, {}).dump();
  const std::string_view key = "\"a\":259";
  two_keys.replace(two_keys.find(key), key.size(), "\"a\":259,\"a\":260");
  EXPECT_TRUE(
      contains(error_of([&] { (void)read_tokenizer_json(two_keys, "x"); }), "\"a\" has two ids"));
}

TEST(TokenizerJsonTest, RefusesTextThatIsNoSuchDocument) {
  const auto error = [](std::string_view text) {
    return error_of([&] { (void)read_tokenizer_json(text, "some.json"); });
  };
  EXPECT_TRUE(contains(error(""), "not JSON"));
  EXPECT_TRUE(contains(error("{} x"), "not JSON"));
  EXPECT_TRUE(contains(error(std::string_view("{}\0", 3)), "zero byte"));
  EXPECT_TRUE(contains(error("[]"), "expected a JSON object"));
  EXPECT_TRUE(contains(error("7"), "expected a JSON object"));
  EXPECT_TRUE(contains(error(R"({"a": 1, "a": 2})"), "twice"));
  EXPECT_TRUE(contains(error(std::string(100'000, '[')), "some.json"));
  EXPECT_TRUE(contains(error(R"({"a":)" + std::string(40, '[')), "too deep"));
  std::string values = R"({"a": [0)";
  for (int value = 0; value < 300'000; ++value) {
    values += ",0";
  }
  EXPECT_TRUE(contains(error(values + "]}"), "too many values"));
  for (const char* merges : {R"(["a"])", R"(["a b c"])", R"([["a"]])", R"([["a","b","c"]])",
                             R"([7])", R"([["a",7]])", R"([[["a"],"b"]])", R"([{"a":"b"}])"}) {
    EXPECT_TRUE(contains(
        error(fmt::format(R"({{"model": {{"vocab": {{}}, "merges": {}}}}})", merges)), "merge"))
        << merges;
  }
}

// SentencePiece merges whatever makes a piece; the list says what tokenizers merge.
TEST(TokenizerJsonTest, RefusesMergesThatSentencePieceWouldNotDo) {
  const std::vector<std::string> pieces{"a", "b", "c", "ab", "bc", "abc"};
  const TemporaryFolder folder;
  const Tokenizer whole =
      load(folder, document_of(pieces, {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"ab", "c"}}));
  EXPECT_EQ(whole.tokens("abc"), std::vector<std::int32_t>{264});
  EXPECT_EQ(whole.tokens("abab"), (std::vector<std::int32_t>{262, 262}));
  EXPECT_EQ(whole.tokens("aabcb"), (std::vector<std::int32_t>{259, 264, 260}));
  // Another trainer lists a pair for each piece.
  EXPECT_TRUE(contains(refusal(document_of(pieces, {{"b", "c"}, {"a", "b"}, {"a", "bc"}})),
                       "the merges of \"abc\""));
  EXPECT_TRUE(
      contains(refusal(document_of(pieces, {{"b", "c"}, {"a", "bc"}, {"a", "b"}, {"ab", "c"}})),
               "the merges of \"abc\""));
  EXPECT_TRUE(contains(
      refusal(document_of(pieces, {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"ab", "c"}, {"b", "c"}})),
      "the merges of \"bc\""));
  // The same pair twice is not another one.
  EXPECT_TRUE(
      contains(refusal(document_of(pieces, {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "bc"}})),
               "the merges of \"abc\""));
}

TEST(TokenizerJsonTest, PiecesThatNoMergeMakesAreNeverFound) {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = load(folder, document_of({"a", "b", "ab"}, {}));
  EXPECT_EQ(tokenizer.tokens("ab"), (std::vector<std::int32_t>{259, 260}));
}

// GemmaConverter has a tab where the byte of a tab was.
TEST(TokenizerJsonTest, ACharacterMayStandForItsByte) {
  json document = document_of({"a"}, {});
  document["model"]["vocab"].erase("<0x09>");
  document["model"]["vocab"]["\t"] = 3 + 9;
  const TemporaryFolder folder;
  const Tokenizer tokenizer = load(folder, document);
  EXPECT_EQ(tokenizer.vocabulary(), 3 + 256 + 1);
  EXPECT_EQ(tokenizer.tokens("a\ta", TextClean::kNone), (std::vector<std::int32_t>{259, 12, 259}));
}

TEST(TokenizerJsonTest, AddedTokensAreFoundFirst) {
  json document = document_of({"t", "a", "g", "<", ">", "ta", "tag"}, {{"t", "a"}, {"ta", "g"}});
  document["added_tokens"].push_back({{"id", 266}, {"content", "<tag>"}, {"special", false}});
  document["added_tokens"].push_back({{"id", 267}, {"content", "<ta>"}, {"special", true}});
  const TemporaryFolder folder;
  const Tokenizer tokenizer = load(folder, document);
  EXPECT_EQ(tokenizer.vocabulary(), 268);
  EXPECT_EQ(tokenizer.tokens("a<TAG>t"), (std::vector<std::int32_t>{260, 266, 259}));
  EXPECT_EQ(tokenizer.tokens("<ta>"), (std::vector<std::int32_t>{262, 264, 263}));  // special: text
}

}  // namespace
}  // namespace fovea::text
