// Checkpoints: whole ones load exactly, damaged ones are refused by name.
#include "model/checkpoint.hpp"

#include <atomic>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "files.hpp"
#include "fovea/model.hpp"
#include "model/architecture.hpp"
#include "model/init.hpp"

namespace fovea::model {
namespace {

constexpr const char* kTensor = "vision_model.encoder.layers.1.self_attn.k_proj.weight";

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override { write({}); }

  void write(InitOptions options) {
    options.preset = "tiny";
    options.folder = folder();
    options.overwrite = true;
    options.threads = 2;
    write_checkpoint(options);
  }

  [[nodiscard]] std::filesystem::path folder() const { return temporary_.path() / "model"; }
  [[nodiscard]] std::filesystem::path weights() const { return folder() / "model.safetensors"; }

  // Rewrites the header; the data stays.
  void edit_header(std::string_view from, std::string_view to) const {
    const std::string file = read_text(weights());
    const std::size_t length = header_length(file);
    write_text(weights(),
               safetensors(replaced(file.substr(8, length), from, to), file.substr(8 + length)));
  }

  // Overwrites one value of `kTensor`, of type T.
  template <typename T>
  void poke(std::size_t index, T value) const {
    std::string file = read_text(weights());
    const std::uint64_t begin = SafetensorsFile(weights()).tensors().at(kTensor).offset;
    std::memcpy(file.data() + begin + index * sizeof(T), &value, sizeof(T));
    write_text(weights(), file);
  }

  [[nodiscard]] std::string open_error() const {
    return error_of([this] { const Checkpoint checkpoint(folder()); });
  }

  TemporaryFolder temporary_;
};

TEST_F(CheckpointTest, LoadsEveryTensorInItsShape) {
  const Checkpoint checkpoint(folder());
  EXPECT_TRUE(WeightFiles(folder(), checkpoint.config().vision).unused().empty());
  std::int64_t parameters = 0;
  for (const TensorSpec& spec : vision_tensors(checkpoint.config().vision)) {
    const AlignedBuffer<float> values = checkpoint.load(spec.name);
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), spec.shape.elements()) << spec.name;
    parameters += spec.shape.elements();
    double energy = 0.0;
    for (const float value : values.span()) {
      energy += static_cast<double>(value) * value;
    }
    EXPECT_GT(energy, 0.0) << spec.name;
  }
  EXPECT_EQ(parameters, parameter_count(checkpoint.config().vision));
}

TEST_F(CheckpointTest, HalfTypesLoadAsTheRoundedValues) {
  const AlignedBuffer<float> full = Checkpoint(folder()).load(kTensor);
  write({.dtype = WeightType::kBF16});
  const AlignedBuffer<float> bf16 = Checkpoint(folder()).load(kTensor);
  write({.dtype = WeightType::kF16});
  const AlignedBuffer<float> f16 = Checkpoint(folder()).load(kTensor);
  ASSERT_EQ(full.size(), bf16.size());
  ASSERT_EQ(full.size(), f16.size());
  for (std::size_t index = 0; index < full.size(); ++index) {
    ASSERT_EQ(bf16[index], to_float(to_bfloat16(full[index])));
    ASSERT_EQ(f16[index], to_float(to_float16(full[index])));
  }
}

TEST_F(CheckpointTest, UnalignedTensorsLoadTheSame) {
  const AlignedBuffer<float> aligned = Checkpoint(folder()).load(kTensor);
  edit_header("{", "{ ");  // one byte more: every tensor moves to an odd address
  ASSERT_EQ((8 + header_length(read_text(weights()))) % 4, 1U);
  const AlignedBuffer<float> unaligned = Checkpoint(folder()).load(kTensor);
  EXPECT_TRUE(std::ranges::equal(aligned.span(), unaligned.span()));
}

// A map of such a file would be a signal that ends the process.
TEST_F(CheckpointTest, WeightsThatAreCutOffWhileTheyAreReadAreNamed) {
  const Checkpoint checkpoint(folder());
  std::filesystem::resize_file(weights(), 8 + header_length(read_text(weights())) + 100);
  const std::string error = error_of([&] { (void)checkpoint.load(kTensor); });
  EXPECT_TRUE(contains(error, weights().string() + ": shrank to")) << error;
  EXPECT_TRUE(contains(error_of([&] { (void)checkpoint.fingerprint(); }), "shrank to"));
}

TEST_F(CheckpointTest, LoadingCanBeStopped) {
  std::atomic<bool> stop = false;
  const Checkpoint checkpoint(folder(), &stop);
  EXPECT_FALSE(checkpoint.load(kTensor).empty());
  stop = true;
  EXPECT_THROW((void)checkpoint.load(kTensor), Interrupted);
  EXPECT_THROW(Checkpoint(folder(), &stop), Interrupted);
}

TEST_F(CheckpointTest, NamesWithoutPrefixAreAccepted) {
  const AlignedBuffer<float> prefixed = Checkpoint(folder()).load(kTensor);
  std::string file = read_text(weights());
  const std::size_t length = header_length(file);
  std::string header = file.substr(8, length);
  for (std::size_t at = 0; (at = header.find("\"vision_model.", at)) != std::string::npos;) {
    header.erase(at + 1, std::string_view("vision_model.").size());
  }
  write_text(weights(), safetensors(header, file.substr(8 + length)));
  const Checkpoint bare(folder());
  EXPECT_TRUE(std::ranges::equal(prefixed.span(), bare.load(kTensor).span()));
  EXPECT_TRUE(WeightFiles(folder(), bare.config().vision).unused().empty());
}

TEST_F(CheckpointTest, MissingTensorsAreNamed) {
  edit_header("vision_model.head.probe", "vision_model.head.prune");
  const std::string error = open_error();
  EXPECT_TRUE(contains(error, "1 tensors of the vision tower are missing")) << error;
  EXPECT_TRUE(contains(error, "vision_model.head.probe")) << error;
  const ModelInfo info = inspect_model(folder().string());
  EXPECT_FALSE(info.usable());
  EXPECT_EQ(info.missing, std::vector<std::string>{"vision_model.head.probe"});
  EXPECT_EQ(info.unused, std::vector<std::string>{"vision_model.head.prune"});
}

TEST_F(CheckpointTest, ManyMissingTensorsAreCounted) {
  write_text(folder() / "config.json",
             replaced(read_text(folder() / "config.json"), "\"num_hidden_layers\": 3",
                      "\"num_hidden_layers\": 5"));
  const std::string error = open_error();
  EXPECT_TRUE(contains(error, "32 tensors")) << error;
  EXPECT_TRUE(contains(error, "layers.3.layer_norm1.weight")) << error;
  EXPECT_TRUE(contains(error, "(32 in total)")) << error;
}

TEST_F(CheckpointTest, UnusedVisionTensorsAreListedTextIsNot) {
  const std::string file = read_text(weights());
  const std::size_t length = header_length(file);
  const std::size_t data = file.size() - 8 - length;
  const std::string extra =
      fmt::format(R"(,"vision_model.extra":{{"dtype":"I64","shape":[1],"data_offsets":[{0},{1}]}},)"
                  R"("text_model.x":{{"dtype":"F8_E4M3","shape":[2],"data_offsets":[{1},{2}]}},)"
                  R"("logit_scale":{{"dtype":"F32","shape":[],"data_offsets":[{2},{3}]}}}})",
                  data, data + 8, data + 10, data + 14);
  std::string header = file.substr(8, length);
  header.erase(header.rfind('}'));
  write_text(weights(),
             safetensors(header + extra, file.substr(8 + length) + std::string(14, '\0')));
  EXPECT_EQ(WeightFiles(folder(), Checkpoint(folder()).config().vision).unused(),
            std::vector<std::string>{"vision_model.extra"});
}

TEST_F(CheckpointTest, WrongShapeIsNamedWithBoth) {
  edit_header(R"("vision_model.head.probe":{"dtype":"F32","shape":[1,1,128])",
              R"("vision_model.head.probe":{"dtype":"F32","shape":[1,128])");
  const std::string error = open_error();
  EXPECT_TRUE(contains(error, "vision_model.head.probe has shape [1, 128], expected [1, 1, 128]"))
      << error;
}

TEST_F(CheckpointTest, WrongDtypeOfAVisionTensorIsNamed) {
  edit_header(R"("vision_model.head.probe":{"dtype":"F32")",
              R"("vision_model.head.probe":{"dtype":"I32")");
  const std::string error = open_error();
  EXPECT_TRUE(contains(error, "head.probe has dtype I32, expected F32, F16 or BF16")) << error;
}

TEST_F(CheckpointTest, NotFiniteWeightsAreNamedWithIndex) {
  poke(12345, std::numeric_limits<float>::quiet_NaN());
  std::string error = error_of([&] { (void)Checkpoint(folder()).load(kTensor); });
  EXPECT_TRUE(contains(error, std::string("tensor \"") + kTensor + "\" holds nan at index 12345"))
      << error;
  poke(12345, 0.0F);
  poke(16383, -std::numeric_limits<float>::infinity());  // the last
  error = error_of([&] { (void)Checkpoint(folder()).load(kTensor); });
  EXPECT_TRUE(contains(error, "holds -inf at index 16383")) << error;
  EXPECT_TRUE(contains(error, "of the file)")) << error;
  write({.dtype = WeightType::kBF16});
  poke(7, std::uint16_t{0x7f80});
  error = error_of([&] { (void)Checkpoint(folder()).load(kTensor); });
  EXPECT_TRUE(contains(error, "holds inf at index 7")) << error;
  write({.dtype = WeightType::kF16});
  poke(8, std::uint16_t{0x7e01});
  error = error_of([&] { (void)Checkpoint(folder()).load(kTensor); });
  EXPECT_TRUE(contains(error, "holds nan at index 8")) << error;
}

TEST_F(CheckpointTest, UnknownNameIsRefused) {
  const std::string error = error_of([&] { (void)Checkpoint(folder()).load("nothing"); });
  EXPECT_TRUE(contains(error, "no tensor \"nothing\"")) << error;
}

TEST_F(CheckpointTest, NoWeightsIsRefused) {
  std::filesystem::remove(weights());
  EXPECT_TRUE(contains(open_error(), "holds no model.safetensors"));
  write_text(folder() / "pytorch_model.bin", "");
  EXPECT_TRUE(contains(open_error(), "pytorch_model.bin is not supported"));
}

class ShardedTest : public CheckpointTest {
 protected:
  void SetUp() override {
    write({});
    single = Checkpoint(folder()).load(kTensor);
    write({.max_shard_bytes = 500'000});
  }
  [[nodiscard]] std::filesystem::path index() const {
    return folder() / "model.safetensors.index.json";
  }
  void edit_index(std::string_view from, std::string_view to) const {
    write_text(index(), replaced(read_text(index()), from, to));
  }
  // Name of the n-th shard, from 1 on.
  [[nodiscard]] std::string shard(int number) const {
    const std::string begin = fmt::format("model-{:05}-of-", number);
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      if (entry.path().filename().string().starts_with(begin)) {
        return entry.path().filename().string();
      }
    }
    ADD_FAILURE() << "no shard " << number;
    return {};
  }
  AlignedBuffer<float> single;
};

TEST_F(ShardedTest, LoadsTheSame) {
  const Checkpoint checkpoint(folder());
  EXPECT_TRUE(std::ranges::equal(checkpoint.load(kTensor).span(), single.span()));
  const ModelInfo info = inspect_model(folder().string());
  EXPECT_GT(info.files.size(), 3U);
  EXPECT_TRUE(info.usable());
  EXPECT_EQ(info.parameters, parameter_count(checkpoint.config().vision));
}

TEST_F(ShardedTest, TensorInAnotherShardIsRefused) {
  const std::string entry = "\"vision_model.head.probe\": \"";
  const std::string text = read_text(index());
  const std::size_t begin = text.find(entry) + entry.size();
  const std::string right = text.substr(begin, text.find('"', begin) - begin);
  ASSERT_NE(right, shard(1));
  edit_index(entry + right, entry + shard(1));
  const std::string error = open_error();
  EXPECT_TRUE(contains(error, "places tensor \"vision_model.head.probe\" in " + shard(1) +
                                  ", which does not hold it"))
      << error;
}

TEST_F(ShardedTest, MissingShardIsNamed) {
  const std::string name = shard(2);
  std::filesystem::remove(folder() / name);
  const std::string error = open_error();
  EXPECT_TRUE(contains(error, name + ": cannot open")) << error;
}

TEST_F(ShardedTest, TruncatedShardIsNamed) {
  const auto path = folder() / shard(2);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const std::string error = open_error();
  EXPECT_TRUE(error.starts_with(path.string() + ": ")) << error;
  EXPECT_TRUE(contains(error, "truncated?")) << error;
}

TEST_F(ShardedTest, ShardsOfTheTextTowerNeedNotBeThere) {
  edit_index("\"weight_map\": {", "\"weight_map\": {\n    \"text_model.x\": \"text.safetensors\",");
  EXPECT_TRUE(std::ranges::equal(Checkpoint(folder()).load(kTensor).span(), single.span()));
}

TEST_F(ShardedTest, ShardOutsideTheFolderIsRefused) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "..", ""}) {
    write_text(index(), fmt::format(R"({{"weight_map":{{"vision_model.a":"{}"}}}})", name));
    const std::string error = open_error();
    EXPECT_TRUE(contains(error, "not a plain file name")) << error;
  }
}

TEST_F(ShardedTest, MalformedIndexIsRefused) {
  write_text(index(), "{}");
  EXPECT_TRUE(contains(open_error(), "weight_map"));
  write_text(index(), R"({"weight_map":{"vision_model.a":1}})");
  EXPECT_TRUE(contains(open_error(), "not a file name"));
  write_text(index(), R"({"weight_map":)");
  EXPECT_TRUE(contains(open_error(), "not JSON"));
}

}  // namespace
}  // namespace fovea::model
