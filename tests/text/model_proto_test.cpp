// SentencePiece's files: what is read is what was written, and damage is refused before
// SentencePiece, which would follow it out of bounds, sees it.
#include "text/model_proto.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "text/tokenizer.hpp"
#include "vocabulary_files.hpp"

namespace fovea::text {
namespace {

void expect_equal(const Vocabulary& a, const Vocabulary& b) {
  ASSERT_EQ(a.pieces.size(), b.pieces.size());
  for (std::size_t id = 0; id < a.pieces.size(); ++id) {
    EXPECT_EQ(a.pieces[id].text, b.pieces[id].text);
    EXPECT_EQ(a.pieces[id].score, b.pieces[id].score);
    EXPECT_EQ(a.pieces[id].type, b.pieces[id].type);
  }
  EXPECT_EQ(a.algorithm, b.algorithm);
  EXPECT_EQ(a.byte_fallback, b.byte_fallback);
  EXPECT_EQ(a.space_as_suffix, b.space_as_suffix);
  EXPECT_EQ(a.charsmap, b.charsmap);
  EXPECT_EQ(a.add_dummy_prefix, b.add_dummy_prefix);
  EXPECT_EQ(a.remove_extra_spaces, b.remove_extra_spaces);
  EXPECT_EQ(a.escape_spaces, b.escape_spaces);
}

TEST(ModelProtoTest, ReadsWhatItWrites) {
  for (Vocabulary vocabulary :
       {bpe_of({"ab", "a", "b", "▁"}), unigram_of({{.text = "a", .score = -1.5F}})}) {
    vocabulary.pieces.push_back({.text = "<tag>", .type = PieceType::kUserDefined});
    vocabulary.pieces.push_back({.text = "old", .score = -1e30F, .type = PieceType::kUnused});
    for (int flags = 0; flags < 16; ++flags) {
      vocabulary.space_as_suffix = (flags & 1) != 0;
      vocabulary.add_dummy_prefix = (flags & 2) != 0;
      vocabulary.remove_extra_spaces = (flags & 4) != 0;
      vocabulary.escape_spaces = (flags & 8) != 0;
      expect_equal(read_model_proto(write_model_proto(vocabulary), "x"), vocabulary);
    }
  }
}

// Rules of the format: absent fields have their defaults, unknown ones of every kind are skipped,
// and parts of a message may come one after another.
TEST(ModelProtoTest, ReadsWhatOthersWrite) {
  const std::string file =
      std::string("\x0a\x03\x0a\x01z", 5) +             // a piece "z"
      "\x0a\x05\x0a\x01u\x18\x02" +                     // and an unknown one
      std::string("\x12\x05\x18\x02\xc8\x01\x07", 7) +  // trainer: BPE, and field 25
      std::string("\x1a\x02\x18\x00", 4) +              // normalizer: no dummy prefix
      std::string("\x1a\x02\x20\x00", 4) +              // and no removed spaces
      "\x31........" + "\x3d...." + "\x42\x02hi";       // fields 6, 7 and 8
  const Vocabulary read = read_model_proto(file, "x");
  ASSERT_EQ(read.pieces.size(), 2U);
  EXPECT_EQ(read.pieces[0].text, "z");
  EXPECT_EQ(read.pieces[0].score, 0.0F);
  EXPECT_EQ(read.pieces[0].type, PieceType::kNormal);
  EXPECT_EQ(read.algorithm, Vocabulary::Algorithm::kBpe);
  EXPECT_FALSE(read.add_dummy_prefix);
  EXPECT_FALSE(read.remove_extra_spaces);
  EXPECT_TRUE(read.escape_spaces);
  EXPECT_FALSE(read.byte_fallback);
}

TEST(ModelProtoTest, RefusesDamage) {
  const std::string whole = write_model_proto(unigram_of({{.text = "a"}}));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    try {
      (void)read_model_proto(std::string_view(whole).substr(0, bytes), "some.model");
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("some.model: ")) << error.what();
    }
  }
  const auto refusal = [](std::string_view file) {
    return error_of([&] { (void)read_model_proto(file, "x"); });
  };
  EXPECT_TRUE(contains(refusal(""), "0 pieces"));
  EXPECT_TRUE(contains(refusal(std::string_view("\x0a\x05\x0a", 3)), "truncated"));
  EXPECT_TRUE(contains(refusal("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "truncated"));
  EXPECT_TRUE(contains(refusal("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "64 bits"));
  EXPECT_TRUE(contains(refusal("\x0b\x0c"), "unknown wire type"));
  EXPECT_TRUE(contains(refusal("\x08\x01"), "expected a message"));
  EXPECT_TRUE(contains(refusal("\x0a\x02\x08\x01"), "expected text"));
  EXPECT_TRUE(contains(refusal("\x0a\x02\x18\x09"), "unknown type"));
  EXPECT_TRUE(contains(refusal("\x12\x02\x18\x03"), "algorithm 3"));
  EXPECT_TRUE(contains(refusal("version https://git-lfs.github.com/spec/v1\n"),
                       "not a SentencePiece model"));
}

TEST(ModelProtoTest, RefusesVocabulariesThatBreakRules) {
  const auto refusal = [](const Vocabulary& vocabulary) {
    return error_of([&] { check_vocabulary(vocabulary, "x"); });
  };
  EXPECT_TRUE(contains(refusal(unigram_of({{.text = ""}})), "piece 3 has 0 bytes"));
  EXPECT_TRUE(contains(refusal(unigram_of({{.text = std::string(1025, 'a')}})), "1025"));
  EXPECT_TRUE(contains(refusal(unigram_of({{.text = "\xff"}})), "not UTF-8"));
  EXPECT_TRUE(contains(refusal(unigram_of({{.text = std::string("a\0b", 3)}})), "zero byte"));
  for (const float score : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    EXPECT_TRUE(contains(refusal(unigram_of({{.text = "a", .score = score}})), "finite"));
  }
  Vocabulary nested = unigram_of({});
  for (std::size_t length = 1; length <= kMaxNested; ++length) {
    nested.pieces.push_back({.text = std::string(length, 'a'), .type = PieceType::kUserDefined});
    nested.pieces.push_back(
        {.text = "b" + std::string(length, 'a'), .type = PieceType::kUserDefined});
  }
  check_vocabulary(nested, "x");
  nested.pieces.push_back(
      {.text = std::string(kMaxNested + 1, 'a'), .type = PieceType::kUserDefined});
  EXPECT_TRUE(contains(refusal(nested), "prefixes of one another"));
  EXPECT_TRUE(contains(refusal(unigram_of({{.text = "<?>", .type = PieceType::kUnknown}})),
                       "2 unknown pieces"));
  Vocabulary other_name = unigram_of({{.text = "\u2581a"}});
  other_name.pieces[2].text = "?";
  EXPECT_EQ(Tokenizer(other_name, "x").tokens("a b"), (std::vector<std::int32_t>{3, 2}));
  other_name.pieces[2].type = PieceType::kControl;
  EXPECT_TRUE(contains(refusal(other_name), "0 unknown pieces"));
  // What SentencePiece itself refuses.
  const TemporaryFolder folder;
  const auto loading = [&](const Vocabulary& vocabulary) {
    write_text(folder.path() / "spiece.model", write_model_proto(vocabulary));
    return error_of([&] { const Tokenizer tokenizer(folder.path()); });
  };
  EXPECT_TRUE(contains(loading(unigram_of({{.text = "a"}, {.text = "a"}})), "already defined"));
  EXPECT_TRUE(
      contains(loading(unigram_of({{.text = "<0x00>", .type = PieceType::kByte}})), "byte"));
}

// A charsmap as SentencePiece compiles it, of one rule: "a" becomes "b".
class Charsmap {
 public:
  Charsmap() {
    units[0] = 256U << 10U;                           // children of the root are around 256
    units[256 ^ 'a'] = 512U << 10U | 1U << 8U | 'a';  // a rule ends here; its value is around
    units[value_at] = 0x80000000U;                    // the first replacement
    for (std::size_t index = 1; index < units.size(); ++index) {
      if (units[index] == 0) {
        units[index] =
            index % 256 == 0 ? 1U : 0U;  // the label 0 fits around a multiple of 256 alone
      }
    }
  }

  [[nodiscard]] std::string bytes() const {
    const auto size = static_cast<std::uint32_t>(units.size() * 4);
    std::string all(4 + size, '\0');
    std::memcpy(all.data(), &size, 4);
    std::memcpy(all.data() + 4, units.data(), size);
    return all + replacements;
  }

  static constexpr std::size_t value_at = 256 ^ 'a' ^ 512;
  std::vector<std::uint32_t> units = std::vector<std::uint32_t>(1024);
  std::string replacements{"b\0", 2};
};

TEST(CharsmapTest, FollowsRulesWithinBounds) {
  check_charsmap("", "x");
  const Charsmap good;
  check_charsmap(good.bytes(), "x");
  Vocabulary vocabulary = unigram_of({{.text = "▁b"}});
  vocabulary.charsmap = good.bytes();
  const TemporaryFolder folder;
  write_text(folder.path() / "spiece.model", write_model_proto(vocabulary));
  EXPECT_EQ(Tokenizer(folder.path()).tokens("a"), std::vector<std::int32_t>{3});
}

TEST(CharsmapTest, RefusesDamage) {
  const auto refusal = [](const Charsmap& map) {
    return error_of([&] { check_charsmap(map.bytes(), "x"); });
  };
  Charsmap outside;
  outside.units[0] = 1024U << 10U;
  EXPECT_TRUE(contains(refusal(outside), "a node is out of bounds"));
  Charsmap leaf;
  leaf.units[256 ^ 'a'] = 4096U << 10U | 1U << 8U | 'a';
  EXPECT_TRUE(contains(refusal(leaf), "is out of bounds"));
  Charsmap value;
  value.units[Charsmap::value_at] = 0x80000002U;
  EXPECT_TRUE(contains(refusal(value), "a rule is out of bounds"));
  Charsmap root;
  root.units[0] = 0;  // the zero byte then leads back to the root
  EXPECT_TRUE(contains(refusal(root), "back to itself"));
  Charsmap cycle;
  cycle.units[256 ^ 'a'] = static_cast<std::uint32_t>('a') << 10U | 'a';  // around 256 again
  EXPECT_TRUE(contains(refusal(cycle), "back to itself"));
  Charsmap open;
  open.replacements = "b";
  EXPECT_TRUE(contains(refusal(open), "truncated"));
  const std::string whole = Charsmap().bytes();
  for (const std::size_t bytes : {1, 3, 4, 5, 100, 4099}) {
    EXPECT_TRUE(
        contains(error_of([&] { check_charsmap(std::string_view(whole).substr(0, bytes), "x"); }),
                 "truncated"))
        << bytes;
  }
}

// SentencePiece keeps at most 32 matches of one position.
TEST(CharsmapTest, RefusesTooManyRulesWithinOneAnother) {
  const auto chain = [](std::uint32_t rules) {
    Charsmap map;
    map.units.assign((rules + 3) * 256, 0);
    map.units[0] = 256U << 10U;
    std::uint32_t position = 256;  // the children of the rule "aa...a" so far
    for (std::uint32_t rule = 1; rule <= rules; ++rule) {
      const std::uint32_t node = position ^ 'a';
      const std::uint32_t next = (rule + 1) * 256;
      map.units[node] = (node ^ next) << 10U | 1U << 8U | 'a';
      map.units[next] = 0x80000000U;
      position = next;
    }
    for (std::size_t index = 256; index < map.units.size(); index += 256) {
      map.units[index] = map.units[index] == 0 ? 1U : map.units[index];
    }
    return map;
  };
  check_charsmap(chain(32).bytes(), "x");
  EXPECT_TRUE(
      contains(error_of([&] { check_charsmap(chain(33).bytes(), "x"); }), "too many rules"));
}

}  // namespace
}  // namespace fovea::text
