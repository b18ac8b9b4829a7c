// The C interface's texts: values of the C++ one, runs that end early, labels, what is refused.
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fovea/c/encoder.h"
#include "fovea/encoder.hpp"
#include "fovea/model.hpp"

namespace fovea::c::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kTextsWaitMs = 60'000;
constexpr fovea_embed_texts_options kUnit{.clean = FOVEA_TEXT_CLEAN_AUTO, .normalize = 1};

class CTexts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string pattern = (fs::temp_directory_path() / "fovea-c-texts-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    init_checkpoint({.preset = "tiny", .folder = folder / "model", .threads = 1});
    init_checkpoint({.preset = "tiny", .folder = folder / "images", .texts = false, .threads = 1});
  }
  static void TearDownTestSuite() { fs::remove_all(folder); }

  void SetUp() override { load("model", FOVEA_TOWER_TEXTS); }

  void load(const std::string& name, std::int32_t first) {
    fovea_encoder* loaded = nullptr;
    ASSERT_EQ(fovea_encoder_load_tower((folder / name).c_str(), "cpu", "fp32", 2, first, &loaded),
              FOVEA_OK)
        << fovea_last_error();
    encoder.reset(loaded);
    dimension = static_cast<std::size_t>(fovea_encoder_dimension(loaded));
  }

  static std::vector<fovea_text> views(const std::vector<std::string>& texts) {
    std::vector<fovea_text> list;
    for (const std::string& text : texts) {
      list.push_back({.data = text.data(), .size = text.size()});
    }
    return list;
  }

  [[nodiscard]] std::vector<float> embed(const std::vector<std::string>& texts,
                                         const fovea_embed_texts_options& options = kUnit) const {
    std::vector<float> rows(texts.size() * dimension);
    EXPECT_EQ(
        fovea_embed_texts(encoder.get(), views(texts).data(), texts.size(), &options, rows.data()),
        FOVEA_OK)
        << fovea_last_error();
    return rows;
  }

  [[nodiscard]] std::string refusal(const std::string& text,
                                    const fovea_embed_texts_options& options = kUnit) const {
    std::vector<float> rows(dimension, 7.0F);
    EXPECT_EQ(fovea_embed_texts(encoder.get(), views({text}).data(), 1, &options, rows.data()),
              FOVEA_FAILED);
    EXPECT_EQ(rows, std::vector<float>(dimension, 7.0F));
    return fovea_last_error();
  }

  struct FreeEncoder {
    void operator()(fovea_encoder* loaded) const { fovea_encoder_free(loaded); }
  };
  struct FreeRun {
    void operator()(fovea_embedding* run) const { fovea_embed_free(run); }
  };

  static inline fs::path folder;
  std::unique_ptr<fovea_encoder, FreeEncoder> encoder;
  std::size_t dimension = 0;
};

TEST_F(CTexts, ValuesAreThoseOfTheCppInterface) {
  const std::vector<std::string> texts{"A Red bicycle!", "", "дом у моря", "a red bicycle"};
  Encoder expected((folder / "model").native(),
                   {.device = "cpu", .precision = Precision::kFp32, .threads = 2});
  const std::array<std::pair<fovea_text_clean, TextClean>, 4> ways{
      {{FOVEA_TEXT_CLEAN_AUTO, TextClean::kAuto},
       {FOVEA_TEXT_CLEAN_LOWER, TextClean::kLower},
       {FOVEA_TEXT_CLEAN_CANONICALIZE, TextClean::kCanonicalize},
       {FOVEA_TEXT_CLEAN_NONE, TextClean::kNone}}};
  for (const auto& [c_clean, cpp_clean] : ways) {
    EmbedTextsOptions options;
    options.clean = cpp_clean;
    options.normalize = false;
    EXPECT_EQ(embed(texts, {.clean = c_clean, .normalize = 0}),
              expected.embed_texts(texts, options));
  }
  const std::vector<float> rows = embed(texts);
  EXPECT_EQ(rows, expected.embed_texts(texts));
  EXPECT_NE(rows, embed(texts, {.clean = FOVEA_TEXT_CLEAN_NONE, .normalize = 1}));
  EXPECT_NE(rows, embed(texts, {.clean = FOVEA_TEXT_CLEAN_AUTO, .normalize = 0}));
}

TEST_F(CTexts, EitherTowerMayComeFirst) {
  const std::vector<float> rows = embed({"cat"});
  load("model", FOVEA_TOWER_IMAGES);
  ASSERT_EQ(fovea_encoder_load_texts(encoder.get()), FOVEA_OK) << fovea_last_error();
  EXPECT_EQ(embed({"cat"}), rows);
  fovea_encoder* loaded = nullptr;
  EXPECT_EQ(fovea_encoder_load_tower((folder / "model").c_str(), "cpu", "fp32", 2, 2, &loaded),
            FOVEA_FAILED);
  EXPECT_NE(std::string(fovea_last_error()).find("tower 2"), std::string::npos);
}

TEST_F(CTexts, LogitsAreScaledAsTheModelSays) {
  double factor = 0;
  double bias = 0;
  ASSERT_EQ(fovea_encoder_logit_scale(encoder.get(), &factor, &bias), FOVEA_OK);
  Encoder expected((folder / "model").native(), {.device = "cpu", .first = Tower::kTexts});
  EXPECT_EQ(factor, expected.logit_scale().factor);
  EXPECT_EQ(bias, expected.logit_scale().bias);
  EXPECT_GT(factor, 1);
  EXPECT_LT(bias, 0);
}

TEST_F(CTexts, RunsTellHowFarTheyAreAndStop) {
  const std::vector<std::string> texts(20'000, "many words about very little");
  std::vector<float> rows(texts.size() * dimension, 7.0F);
  fovea_embedding* begun = nullptr;
  ASSERT_EQ(fovea_embed_texts_start(encoder.get(), views(texts).data(), texts.size(), &kUnit,
                                    rows.data(), &begun),
            FOVEA_OK)
      << fovea_last_error();
  const std::unique_ptr<fovea_embedding, FreeRun> run(begun);
  encoder.reset();  // the run keeps what it needs
  std::int32_t ended = 1;
  ASSERT_EQ(fovea_embed_wait(begun, 0, &ended), FOVEA_OK);
  EXPECT_EQ(ended, 0);
  fovea_embed_stop(begun);
  EXPECT_EQ(fovea_embed_wait(begun, kTextsWaitMs, &ended), FOVEA_FAILED);
  EXPECT_STREQ(fovea_last_error(), "interrupted");
  EXPECT_LT(fovea_embed_done(begun), texts.size());
  EXPECT_EQ(rows, std::vector<float>(rows.size(), 7.0F));
}

TEST_F(CTexts, WholeRunsHaveDoneAll) {
  const std::vector<std::string> texts{"one", "two", "three"};
  std::vector<float> rows(texts.size() * dimension);
  fovea_embedding* begun = nullptr;
  ASSERT_EQ(fovea_embed_texts_start(encoder.get(), views(texts).data(), texts.size(), &kUnit,
                                    rows.data(), &begun),
            FOVEA_OK);
  const std::unique_ptr<fovea_embedding, FreeRun> run(begun);
  std::int32_t ended = 0;
  ASSERT_EQ(fovea_embed_wait(begun, kTextsWaitMs, &ended), FOVEA_OK) << fovea_last_error();
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(fovea_embed_done(begun), 3U);
  EXPECT_EQ(fovea_embed_failures(begun), 0U);
  EXPECT_STREQ(fovea_embed_notes(begun), "");
  EXPECT_EQ(rows, embed(texts));
  EXPECT_TRUE(embed({}).empty());
}

TEST_F(CTexts, LabelsAreThoseOfTheCppInterface) {
  const std::vector<std::string> labels{"cat", "Red bicycle", "{} of a dog"};
  const std::vector<std::string> templates{"This is a photo of {}.", "{}", "a bad {}"};
  Encoder expected((folder / "model").native(),
                   {.device = "cpu", .precision = Precision::kFp32, .threads = 2});
  EmbedTextsOptions as_they_are;
  as_they_are.clean = TextClean::kNone;
  as_they_are.normalize = false;  // labels are of length 1 all the same
  std::vector<float> rows(labels.size() * dimension);
  for (const std::size_t count : {1U, 3U}) {
    ASSERT_EQ(
        fovea_embed_labels(encoder.get(), views(labels).data(), labels.size(),
                           views(templates).data(), count, FOVEA_TEXT_CLEAN_NONE, rows.data()),
        FOVEA_OK)
        << fovea_last_error();
    const std::vector<float> want =
        expected.embed_labels(labels, std::span(templates).first(count), as_they_are);
    EXPECT_EQ(rows, want);
    // The same in threads of its own, which counts sentences.
    std::vector<float> started(rows.size());
    fovea_embedding* begun = nullptr;
    ASSERT_EQ(fovea_embed_labels_start(encoder.get(), views(labels).data(), labels.size(),
                                       views(templates).data(), count, FOVEA_TEXT_CLEAN_NONE,
                                       started.data(), &begun),
              FOVEA_OK)
        << fovea_last_error();
    const std::unique_ptr<fovea_embedding, FreeRun> run(begun);
    std::int32_t ended = 0;
    ASSERT_EQ(fovea_embed_wait(begun, kTextsWaitMs, &ended), FOVEA_OK) << fovea_last_error();
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(fovea_embed_done(begun), labels.size() * count);
    EXPECT_EQ(started, want);
  }
  const auto refused = [&](std::size_t label_count, const std::string& pattern) {
    EXPECT_EQ(fovea_embed_labels(encoder.get(), views(labels).data(), label_count,
                                 views({pattern}).data(), 1, FOVEA_TEXT_CLEAN_AUTO, rows.data()),
              FOVEA_FAILED);
    return std::string(fovea_last_error());
  };
  EXPECT_NE(refused(3, "a photo").find("exactly one {}"), std::string::npos) << fovea_last_error();
  EXPECT_NE(refused(0, "{}").find("no label"), std::string::npos) << fovea_last_error();
}

TEST_F(CTexts, MessagesSayWhatIsWrong) {
  EXPECT_NE(refusal("caf\xe9").find("UTF-8"), std::string::npos) << fovea_last_error();
  EXPECT_NE(refusal("x", {.clean = 9, .normalize = 1}).find("fovea_text_clean 9"),
            std::string::npos);
  const fovea_text absent{.data = nullptr, .size = 3};
  std::vector<float> row(dimension);
  EXPECT_EQ(fovea_embed_texts(encoder.get(), &absent, 1, &kUnit, row.data()), FOVEA_FAILED);
  EXPECT_STREQ(fovea_last_error(), "the data of text 0 is NULL");
  EXPECT_EQ(fovea_embed_texts(encoder.get(), nullptr, 1, &kUnit, row.data()), FOVEA_FAILED);
  EXPECT_STREQ(fovea_last_error(), "texts is NULL");
  EXPECT_EQ(fovea_embed_texts(nullptr, &absent, 1, &kUnit, row.data()), FOVEA_FAILED);
  EXPECT_STREQ(fovea_last_error(), "encoder is NULL");
  const fovea_text text{.data = "x", .size = 1};
  EXPECT_EQ(fovea_embed_texts(encoder.get(), &text, SIZE_MAX / 8, &kUnit, row.data()),
            FOVEA_FAILED);
  EXPECT_NE(std::string(fovea_last_error()).find("not enough memory"), std::string::npos);
}

TEST_F(CTexts, ModelsWithoutTextsSaySo) {
  load("images", FOVEA_TOWER_IMAGES);
  EXPECT_EQ(fovea_encoder_load_texts(encoder.get()), FOVEA_FAILED);
  const std::string why = fovea_last_error();
  EXPECT_NE(why.find((folder / "images").native()), std::string::npos) << why;
  EXPECT_EQ(refusal("x"), why);
  double number = 0;
  EXPECT_EQ(fovea_encoder_logit_scale(encoder.get(), &number, &number), FOVEA_FAILED);
  EXPECT_EQ(fovea_last_error(), why);
}

TEST_F(CTexts, ForkedChildrenAreTold) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const fovea_text text{.data = "x", .size = 1};
    std::vector<float> row(dimension);
    const bool refused =
        fovea_embed_texts(encoder.get(), &text, 1, &kUnit, row.data()) == FOVEA_FAILED &&
        std::string(fovea_last_error()).find("belongs to the parent") != std::string::npos &&
        fovea_encoder_load_texts(encoder.get()) == FOVEA_FAILED;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace fovea::c::testing
