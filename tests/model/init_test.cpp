// fovea init: the same bytes every time, every preset, nothing overwritten unasked.
#include "model/init.hpp"

#include <set>

#include "files.hpp"
#include "model/architecture.hpp"
#include "model/checkpoint.hpp"
#include "model/family.hpp"
#include "model/synthetic.hpp"

namespace fovea::model {
namespace {

TEST(ArchitectureTest, BaseIsThePublishedModel) {
  const VisionConfig base;
  EXPECT_EQ(vision_tensors(base).size(), 208U);
  EXPECT_EQ(parameter_count(base), 92'884'224);
  EXPECT_NEAR(flop_per_image(base) * 1e-9, 35.4, 0.1);
}

// The rest of the published 375,187,970 parameters.
TEST(ArchitectureTest, BasesTextTowerIsThePublishedOne) {
  const TextConfig base = find_preset("base-patch16-224").text;
  EXPECT_EQ(text_tensors(base).size(), 200U);
  EXPECT_EQ(parameter_count(base), 375'187'970 - 92'884'224);
  EXPECT_EQ(find_preset("giant-opt-patch16-256").text.projection, 1536);
  EXPECT_EQ(find_preset("giant-opt-patch16-256").text.hidden, 1152);
}

// GFLOP per image as published for the presets.
TEST(ArchitectureTest, FlopCountsAreThePublishedOnes) {
  const auto gflop = [](std::string_view name) {
    return flop_per_image(find_preset(name).vision) * 1e-9;
  };
  EXPECT_NEAR(gflop("large-patch16-256"), 163.0, 1.0);
  EXPECT_NEAR(gflop("so400m-patch14-224"), 220.0, 1.5);
  EXPECT_NEAR(gflop("so400m-patch14-384"), 670.0, 2.0);
  EXPECT_NEAR(gflop("giant-opt-patch16-384"), 1393.0, 3.0);
}

TEST(PresetTest, NamesAndArchitecturesAgree) {
  std::set<std::string_view> names;
  for (const Preset& preset : presets()) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    if (!preset.name.starts_with("tiny")) {
      const std::string size =
          preset.vision.naflex ? "naflex" : std::to_string(preset.vision.image_size);
      EXPECT_TRUE(contains(preset.name, fmt::format("-patch{}-{}", preset.vision.patch, size)))
          << preset.name;
    }
    EXPECT_EQ(preset.name.ends_with("-naflex"), preset.vision.naflex) << preset.name;
    EXPECT_EQ(preset.vision.hidden % preset.vision.heads, 0) << preset.name;
    EXPECT_EQ(preset.vision.mlp % 16, 0) << preset.name;
  }
  EXPECT_EQ(names.size(), 19U);
  EXPECT_EQ(find_preset("so400m-patch14-384").vision.head_dim(), 72);
  EXPECT_EQ(find_preset("giant-opt-patch16-256").vision.head_dim(), 96);
  const std::string error = error_of([] { (void)find_preset("base-patch14-224"); });
  EXPECT_TRUE(contains(error, "base-patch16-224")) << error;
}

void expect_recipes(const SyntheticWeights& weights, const std::vector<TensorSpec>& tensors) {
  for (const TensorSpec& spec : tensors) {
    std::vector<float> values(
        std::min<std::size_t>(256, static_cast<std::size_t>(spec.shape.elements())));
    weights.make(spec).fill(0, values);
    double energy = 0.0;
    for (const float value : values) {
      ASSERT_TRUE(std::isfinite(value)) << spec.name;
      energy += static_cast<double>(value) * value;
    }
    EXPECT_GT(energy, 0.0) << spec.name;
  }
}

TEST(SyntheticTest, EveryPresetHasARecipeForEveryTensor) {
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    VisionConfig config = preset.vision;
    config.layers = 1;
    config.image_size = config.patch * 2;  // tables stay small
    config.num_patches = 4;
    expect_recipes(SyntheticWeights(config, 0), vision_tensors(config));
    TextConfig text = preset.text;
    text.layers = 1;
    text.vocabulary = 300;
    expect_recipes(SyntheticWeights(text, 0), text_tensors(text));
  }
}

TEST(SyntheticTest, PartsAreThoseOfTheWhole) {
  const SyntheticWeights weights(find_preset("tiny").vision, 3);
  for (const TensorSpec& spec : vision_tensors(find_preset("tiny").vision)) {
    const SyntheticTensor tensor = weights.make(spec);
    std::vector<float> whole(static_cast<std::size_t>(spec.shape.elements()));
    tensor.fill(0, whole);
    constexpr std::size_t kBegin = 80;  // amid a row
    std::vector<float> part(32);
    tensor.fill(kBegin, part);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + kBegin)) << spec.name;
  }
}

class InitTest : public testing::Test {
 protected:
  std::string weights_of(InitOptions options) {
    options.preset = "tiny";
    options.folder = temporary_.path() / fmt::format("model-{}", count_++);
    write_checkpoint(options);
    return read_text(options.folder / "model.safetensors");
  }
  TemporaryFolder temporary_;
  int count_ = 0;
};

TEST_F(InitTest, SameSeedSameBytesWhateverTheThreads) {
  const std::string one = weights_of({.seed = 7, .threads = 1});
  EXPECT_EQ(one, weights_of({.seed = 7, .threads = 1}));
  EXPECT_EQ(one, weights_of({.seed = 7, .threads = 5}));
  EXPECT_NE(one, weights_of({.seed = 8, .threads = 1}));
}

TEST_F(InitTest, LayersCanBeChosen) {
  const auto folder = temporary_.path() / "deep" / "model";
  write_checkpoint({.preset = "tiny", .folder = folder, .layers = 5});
  EXPECT_EQ(Checkpoint(folder).config().vision.layers, 5);
  EXPECT_TRUE(contains(
      error_of([&] { write_checkpoint({.preset = "tiny", .folder = folder, .layers = -1}); }),
      "number of layers -1"));
}

TEST_F(InitTest, NonEmptyFolderIsRefusedUnlessToldToOverwrite) {
  const auto folder = temporary_.path() / "model";
  std::filesystem::create_directories(folder);
  write_text(folder / "notes.txt", "mine");
  InitOptions options{.preset = "tiny", .folder = folder, .max_shard_bytes = 500'000};
  const std::string error = error_of([&] { write_checkpoint(options); });
  EXPECT_TRUE(contains(error, "not empty")) << error;
  EXPECT_FALSE(std::filesystem::exists(folder / "config.json"));
  options.overwrite = true;
  write_checkpoint(options);
  EXPECT_TRUE(std::filesystem::exists(folder / "model.safetensors.index.json"));
  options.max_shard_bytes = 5'000'000'000;
  write_checkpoint(options);
  // The shards of before are gone; what is not the model's stays.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 4);
  EXPECT_EQ(read_text(folder / "notes.txt"), "mine");
  EXPECT_NO_THROW((void)Checkpoint(folder));
}

TEST_F(InitTest, FolderThatCannotBeMadeIsNamed) {
  write_text(temporary_.path() / "file", "");
  const std::string error = error_of([&] {
    write_checkpoint({.preset = "tiny", .folder = temporary_.path() / "file" / "model"});
  });
  EXPECT_TRUE(contains(error, "cannot create the folder")) << error;
}

}  // namespace
}  // namespace fovea::model
