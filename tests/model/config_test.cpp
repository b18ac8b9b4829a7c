// config.json and preprocessor_config.json: defaults, refusals, messages.
#include "model/config.hpp"

#include "files.hpp"
#include "io/json.hpp"

namespace fovea::model {
namespace {

std::string vision(std::string_view fields) {
  return R"({"model_type":"siglip","vision_config":{)" + std::string(fields) + "}}";
}

TEST(ConfigTest, SparseTakesTransformersDefaults) {
  const VisionConfig config = parse_config(
      R"({"initializer_factor":1.0,"model_type":"siglip","text_config":{"vocab_size":256000},)"
      R"("vision_config":{"model_type":"siglip_vision_model"}})");
  EXPECT_EQ(config, VisionConfig{});
  EXPECT_EQ(config.patches(), 196);
  EXPECT_EQ(config.head_dim(), 64);
}

TEST(ConfigTest, ReadsEveryField) {
  const VisionConfig expected{.hidden = 1152,
                              .mlp = 4304,
                              .layers = 27,
                              .heads = 16,
                              .image_size = 384,
                              .patch = 14,
                              .layer_norm_eps = 1e-5};
  const std::string fields =
      R"("hidden_size":1152,"intermediate_size":4304,"num_hidden_layers":27,)"
      R"("num_attention_heads":16,"image_size":384,"patch_size":14,"layer_norm_eps":1e-05,)"
      R"("num_channels":3,"hidden_act":"gelu_pytorch_tanh","vision_use_head":true)";
  EXPECT_EQ(parse_config(vision(fields)), expected);
  EXPECT_EQ(parse_config(R"({"model_type":"siglip_vision_model",)" + fields + "}"), expected);
  EXPECT_EQ(expected.grid(), 27);
  EXPECT_EQ(parse_config(vision(R"("image_size":[256,256],"patch_size":[32,32])")).patches(), 64);
  EXPECT_EQ(parse_config(vision(R"("hidden_size":null)")).hidden, 768);
}

struct Refusal {
  std::string json;
  const char* says;
};

class ConfigRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(ConfigRefusal, NamesFileAndReason) {
  const std::string error =
      error_of([] { (void)parse_config(GetParam().json, "DIR/config.json"); });
  EXPECT_TRUE(error.starts_with("DIR/config.json: ")) << error;
  EXPECT_TRUE(contains(error, GetParam().says)) << error;
}

INSTANTIATE_TEST_SUITE_P(
    Refusals, ConfigRefusal,
    testing::Values(
        Refusal{R"({"model_type":"clip","vision_config":{}})", "\"clip\" is a CLIP model"},
        Refusal{R"({"model_type":"chinese_clip"})", "CLIP model"},
        Refusal{R"({"model_type":"siglip2"})", "no vision_config"},
        Refusal{R"({"model_type":"siglip2_text_model"})", "text tower alone"},
        Refusal{R"({"model_type":"siglip2","vision_config":{"model_type":"siglip_vision_model"}})",
                "vision_config.model_type is \"siglip_vision_model\": expected"},
        Refusal{R"({"model_type":"siglip","vision_config":{"model_type":"siglip2_vision_model"}})",
                "expected \"siglip_vision_model\" within \"siglip\""},
        Refusal{R"({"model_type":"siglip2_vision_model","num_patches":255})", "not a square"},
        Refusal{R"({"model_type":"siglip2_vision_model","num_patches":0})", "expected 1 to"},
        Refusal{R"({"model_type":"siglip_text_model"})", "text tower alone"},
        Refusal{R"({"model_type":"siglip","text_config":{}})", "no vision_config"},
        Refusal{R"({"model_type":"siglip","vision_config":{"model_type":"clip_vision_model"}})",
                "vision_config.model_type is \"clip_vision_model\""},
        Refusal{R"({"model_type":"vit"})", "\"vit\" is not supported"},
        Refusal{R"({"model_type":3})", "model_type is 3: expected a string"},
        Refusal{R"({"vision_config":{}})", "no model_type"}, Refusal{R"({})", "no model_type"},
        Refusal{vision(R"("hidden_act":"gelu")"), "hidden_act is \"gelu\": only gelu_pytorch_tanh"},
        Refusal{vision(R"("hidden_act":"quick_gelu")"), "vision_config.hidden_act"},
        Refusal{vision(R"("num_channels":1)"), "only RGB"},
        Refusal{vision(R"("vision_use_head":1)"), "expected true or false"},
        Refusal{vision(R"("hidden_size":770)"), "not divisible"},
        Refusal{vision(R"("image_size":8)"), "smaller than patch_size"},
        Refusal{vision(R"("image_size":[224,256])"), "only squares"},
        Refusal{vision(R"("image_size":8192,"patch_size":1)"), "patches per image"},
        Refusal{vision(R"("hidden_size":0)"), "expected 1 to"},
        Refusal{vision(R"("hidden_size":-768)"), "expected 1 to"},
        Refusal{vision(R"("hidden_size":768.5)"), "expected an integer"},
        Refusal{vision(R"("hidden_size":"768")"), "expected an integer"},
        Refusal{vision(R"("hidden_size":18446744073709551615)"), "expected 1 to"},
        Refusal{vision(R"("num_hidden_layers":1000000000)"), "expected 1 to 512"},
        Refusal{vision(R"("intermediate_size":1e300)"), "expected an integer"},
        Refusal{vision(R"("patch_size":0)"), "expected 1 to"},
        Refusal{vision(R"("layer_norm_eps":0)"), "between 0 and 1"},
        Refusal{vision(R"("layer_norm_eps":"1e-6")"), "expected a number"},
        Refusal{vision(R"("hidden_size":768,"hidden_size":1024)"), "appears twice"},
        Refusal{R"({"model_type":"siglip","vision_config":[]})", "expected an object"},
        Refusal{"", "not JSON"}, Refusal{"[]", "expected a JSON object"},
        Refusal{R"({"model_type":"siglip",})", "error at byte 23"},
        Refusal{"{\"model_type\":\"\xff\"}", "error at byte"},
        Refusal{std::string("{}\0", 3), "zero byte at byte 2"},
        Refusal{"\xef\xbb\xbf{}", "byte order mark"},
        Refusal{vision(R"("layer_norm_eps":1e999)"), "JSON"},
        Refusal{R"({"a":)" + std::string(5000, '[') + std::string(5000, ']') + "}", "deep"},
        Refusal{R"({"a":")" + std::string(io::kMaxJsonBytes, 'x') + "\"}", "too large"}));

TEST(PreprocessorTest, DefaultsAreThoseOfSiglipImageProcessor) {
  const Preprocessing result = parse_preprocessor_config("{}");
  EXPECT_EQ(result.resample, Resample::kBicubic);
  EXPECT_EQ(result.height, 224);
  EXPECT_EQ(result.width, 224);
  EXPECT_FLOAT_EQ(result.rescale, 1.0F / 255.0F);
  EXPECT_EQ(result.mean, (std::array<float, 3>{0.5F, 0.5F, 0.5F}));
}

TEST(PreprocessorTest, ReadsTheHubsFile) {
  const Preprocessing result = parse_preprocessor_config(
      R"({"do_convert_rgb":null,"do_normalize":true,"do_rescale":true,"do_resize":true,)"
      R"("image_mean":[0.1,0.2,0.3],"image_processor_type":"SiglipImageProcessor",)"
      R"("image_std":[0.4,0.5,0.6],"processor_class":"SiglipProcessor","resample":2,)"
      R"("rescale_factor":0.00392156862745098,"size":{"height":384,"width":256}})");
  EXPECT_EQ(result.resample, Resample::kBilinear);
  EXPECT_EQ(result.height, 384);
  EXPECT_EQ(result.width, 256);
  EXPECT_EQ(result.mean, (std::array<float, 3>{0.1F, 0.2F, 0.3F}));
  EXPECT_EQ(result.std, (std::array<float, 3>{0.4F, 0.5F, 0.6F}));
  EXPECT_EQ(result.rescale, static_cast<float>(0.00392156862745098));
  EXPECT_EQ(parse_preprocessor_config(R"({"size":512})").height, 512);
  EXPECT_EQ(
      parse_preprocessor_config(R"({"image_processor_type":"SiglipImageProcessorFast"})").width,
      224);
}

TEST(PreprocessorTest, ReadsThatOfANaflexModel) {
  const auto parse = [](std::string_view text) {
    return parse_preprocessor_config(text, "p",
                                     parse_config(R"({"model_type":"siglip2_vision_model"})"));
  };
  const Preprocessing plain = parse("{}");  // Siglip2ImageProcessor's defaults
  EXPECT_EQ(plain.resample, Resample::kBilinear);
  EXPECT_EQ(plain.patch, 16);
  EXPECT_EQ(plain.max_patches, 256);
  EXPECT_TRUE(plain.keeps_proportions());
  EXPECT_EQ(plain.height, 0);
  const Preprocessing result = parse(
      R"({"image_processor_type":"Siglip2ImageProcessorFast","patch_size":14,"max_num_patches":729,)"
      R"("resample":3,"do_convert_rgb":null,"do_resize":true})");
  EXPECT_EQ(result.resample, Resample::kBicubic);
  EXPECT_EQ(result.patch, 14);
  EXPECT_EQ(result.max_patches, 729);
  EXPECT_FALSE(parse_preprocessor_config(R"({"max_num_patches":256})").keeps_proportions());
  const auto refusal = [&](std::string_view text) { return error_of([&] { (void)parse(text); }); };
  EXPECT_TRUE(contains(refusal(R"({"image_processor_type":"SiglipImageProcessor"})"),
                       "expected Siglip2ImageProcessor for a NaFlex model"));
  EXPECT_TRUE(contains(refusal(R"({"max_num_patches":0})"), "max_num_patches is 0"));
  EXPECT_TRUE(contains(refusal(R"({"max_num_patches":100000})"), "expected 1 to"));
  EXPECT_TRUE(contains(refusal(R"({"patch_size":[16,14]})"), "only squares"));
  EXPECT_TRUE(contains(refusal(R"({"do_resize":false})"), "do_resize"));
}

class PreprocessorRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(PreprocessorRefusal, NamesFieldAndReason) {
  const std::string error =
      error_of([] { (void)parse_preprocessor_config(GetParam().json, "p.json"); });
  EXPECT_TRUE(error.starts_with("p.json: ")) << error;
  EXPECT_TRUE(contains(error, GetParam().says)) << error;
}

INSTANTIATE_TEST_SUITE_P(
    Refusals, PreprocessorRefusal,
    testing::Values(Refusal{R"({"do_resize":false})", "do_resize is false: only true is supported"},
                    Refusal{R"({"do_rescale":false})", "do_rescale"},
                    Refusal{R"({"do_normalize":false})", "do_normalize"},
                    Refusal{R"({"do_convert_rgb":false})", "do_convert_rgb"},
                    Refusal{R"({"do_center_crop":true})", "do_center_crop"},
                    Refusal{R"({"do_pad":true})", "do_pad"},
                    Refusal{R"({"resample":1})", "only 2 (bilinear) and 3 (bicubic)"},
                    Refusal{R"({"resample":"bilinear"})", "only 2"},
                    Refusal{R"({"image_processor_type":"CLIPImageProcessor"})",
                            "expected SiglipImageProcessor for a model of fixed resolution"},
                    Refusal{R"({"image_processor_type":"Siglip2ImageProcessor"})",
                            "expected SiglipImageProcessor"},
                    Refusal{R"({"size":{"shortest_edge":224}})", "since images are not cropped"},
                    Refusal{R"({"size":{"height":224}})", "since images are not cropped"},
                    Refusal{R"({"size":{"height":0,"width":224}})", "size.height is 0"},
                    Refusal{R"({"size":100000})", "expected 1 to"},
                    Refusal{R"({"size":"224"})", "expected {"},
                    Refusal{R"({"image_mean":[0.5,0.5]})", "three numbers"},
                    Refusal{R"({"image_mean":0.5})", "three numbers"},
                    Refusal{R"({"image_std":[0.5,0,0.5]})", "expected three numbers from"},
                    Refusal{R"({"image_std":[0.5,"x",0.5]})", "expected three numbers from"},
                    Refusal{R"({"rescale_factor":0})", "rescale_factor"},
                    Refusal{R"({"rescale_factor":-1})", "rescale_factor"},
                    Refusal{R"({"rescale_factor":true})", "expected a number"},
                    Refusal{"{", "not JSON"}));

TEST(ModelConfigTest, ReadsANaflexModel) {
  for (const char* text :
       {R"({"model_type":"siglip2_vision_model","patch_size":14,"num_patches":729})",
        R"({"model_type":"siglip2","vision_config":{"patch_size":14,"num_patches":729}})"}) {
    const VisionConfig vision = parse_config(text);
    EXPECT_TRUE(vision.naflex);
    EXPECT_EQ(vision.grid(), 27);
    EXPECT_EQ(vision.patches(), 729);
    EXPECT_EQ(vision.patch, 14);
  }
  EXPECT_EQ(parse_config(R"({"model_type":"siglip2_vision_model"})").patches(), 256);

  const TemporaryFolder folder;
  const auto preprocessor = folder.path() / "preprocessor_config.json";
  write_text(folder.path() / "config.json", R"({"model_type":"siglip2","vision_config":{}})");
  write_text(preprocessor, R"({"max_num_patches":1024})");
  EXPECT_EQ(read_model_config(folder.path()).vision.tokens(), 1024);
  write_text(preprocessor, R"({"patch_size":14})");
  const std::string differs = error_of([&] { (void)read_model_config(folder.path()); });
  EXPECT_TRUE(contains(differs, "patch_size is 14, but 16 in config.json")) << differs;
}

TEST(ModelConfigTest, ReadsAFolder) {
  const TemporaryFolder folder;
  const auto config = folder.path() / "config.json";
  const auto preprocessor = folder.path() / "preprocessor_config.json";
  EXPECT_TRUE(contains(error_of([&] { (void)read_model_config(folder.path()); }), "config.json"));
  write_text(config, vision(""));
  const std::string missing = error_of([&] { (void)read_model_config(folder.path()); });
  EXPECT_TRUE(contains(missing, "preprocessor_config.json: there is no such file")) << missing;
  write_text(folder.path() / "processor_config.json",
             R"({"image_processor":{"resample":2,"size":{"height":224,"width":224}}})");
  EXPECT_EQ(read_model_config(folder.path()).preprocessing.resample, Resample::kBilinear);
  write_text(preprocessor, "{}");
  EXPECT_EQ(read_model_config(folder.path()).preprocessing.resample, Resample::kBicubic);
  write_text(preprocessor, R"({"size":{"height":384,"width":384}})");
  const std::string differs = error_of([&] { (void)read_model_config(folder.path()); });
  EXPECT_TRUE(contains(differs, "384 x 384")) << differs;
  EXPECT_TRUE(contains(differs, "image_size is 224")) << differs;
}

TEST(TextConfigTest, DefaultsAndFieldsAreThoseOfTheFile) {
  EXPECT_EQ(parse_text_config(R"({"model_type": "siglip"})"), TextConfig{});
  const TextConfig config = parse_text_config(
      R"({"model_type": "siglip", "text_config": {"hidden_size": 1152, "intermediate_size": 4304,
          "num_hidden_layers": 27, "num_attention_heads": 16, "vocab_size": 256000,
          "projection_size": 1536, "max_position_embeddings": 16}})");
  const TextConfig expected{.hidden = 1152,
                            .mlp = 4304,
                            .layers = 27,
                            .heads = 16,
                            .vocabulary = 256000,
                            .tokens = 16,
                            .projection = 1536};
  EXPECT_EQ(config, expected);
  // Without a projection's size, texts have vectors of the hidden size.
  EXPECT_EQ(parse_text_config(R"({"model_type": "siglip", "text_config": {"hidden_size": 96,
                                  "num_attention_heads": 3}})")
                .projection,
            96);
}

TEST(TextConfigTest, WhatHasNoTextTowerOrAnotherOneIsRefused) {
  const auto message = [](std::string_view text) {
    return error_of([&] { (void)parse_text_config(text); });
  };
  EXPECT_TRUE(contains(message(R"({"model_type": "siglip_vision_model"})"), "no text tower"));
  EXPECT_TRUE(
      contains(message(R"({"model_type": "siglip", "text_config": {"hidden_act": "gelu"}})"),
               "text_config.hidden_act"));
  EXPECT_TRUE(contains(message(R"({"model_type": "siglip", "text_config": {"vocab_size": 0}})"),
                       "text_config.vocab_size"));
  EXPECT_TRUE(
      contains(message(R"({"model_type": "siglip", "text_config": {"model_type": "clip_text"}})"),
               "text towers"));
  EXPECT_TRUE(
      contains(message(R"({"model_type": "siglip", "text_config": {"num_attention_heads": 7}})"),
               "not divisible"));
}

}  // namespace
}  // namespace fovea::model
