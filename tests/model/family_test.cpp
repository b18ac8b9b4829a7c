// A family of models that the program does not have, in one file: transformers' ViT, which has a
// class token, GELU by erf, and no pooling head. Its embeddings are compared with a float64 network
// written here, which knows neither the operators nor the tables of names.
#include "model/family.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numbers>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "backends.hpp"
#include "files.hpp"
#include "fovea/encoder.hpp"
#include "gpu/device/kernel_image.hpp"
#include "model/architecture.hpp"
#include "model/checkpoint.hpp"
#include "model/encoder.hpp"
#include "model/safetensors.hpp"
#include "ops/reference/reference_backend.hpp"

namespace fovea::model {
namespace {

/// transformers models/vit/modeling_vit.py, as ViTModel saves it.
constexpr std::array kVitParts{
    PartName{Part::kClassToken, "embeddings.cls_token", NameSuffix::kNone, 2},
    PartName{Part::kPatchEmbed, "embeddings.patch_embeddings.projection"},
    PartName{Part::kPosition, "embeddings.position_embeddings", NameSuffix::kNone, 1},
    PartName{Part::kNorm1, "encoder.layer.{}.layernorm_before"},
    PartName{Part::kQuery, "encoder.layer.{}.attention.attention.query"},
    PartName{Part::kKey, "encoder.layer.{}.attention.attention.key"},
    PartName{Part::kValue, "encoder.layer.{}.attention.attention.value"},
    PartName{Part::kOut, "encoder.layer.{}.attention.output.dense"},
    PartName{Part::kNorm2, "encoder.layer.{}.layernorm_after"},
    PartName{Part::kFc1, "encoder.layer.{}.intermediate.dense"},
    PartName{Part::kFc2, "encoder.layer.{}.output.dense"},
    PartName{Part::kFinalNorm, "layernorm"}};

std::optional<VisionConfig> vit_of(const Fields& config) {
  const std::optional<Fields> fields = vision_fields(config, "vit-with-text", "vit");
  if (!fields) {
    return std::nullopt;
  }
  VisionConfig vision{.layer_norm_eps = 1e-12,
                      .activation = ops::Epilogue::kGeluErf,
                      .pooling = Pooling::kToken,
                      .prefix_tokens = 1};
  read_layers(*fields, "gelu", vision);
  read_grid(*fields, vision);
  return vision;
}

Preprocessing vit_preprocessing(const Fields& fields) {
  Preprocessing result = read_pixels(fields, Resample::kBilinear);
  read_size(fields, result);
  return result;
}

constexpr Family kVit{.description = "ViT (model_type \"vit\")",
                      .vision_names = {"", kVitParts},
                      .vision = vit_of,
                      .preprocessing = vit_preprocessing};
constexpr std::array kBoth{&siglip, &kVit};

constexpr std::string_view kConfig =
    R"({"model_type": "vit", "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48,
        "num_hidden_layers": 2, "image_size": 32, "patch_size": 8, "hidden_act": "gelu"})";
constexpr std::string_view kPreprocessor =
    R"({"size": {"height": 32, "width": 32}, "image_mean": [0.4, 0.5, 0.6],
        "image_std": [0.2, 0.3, 0.25]})";

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;
using Tensors = std::map<std::string, std::vector<float>>;

/// What the network here can be made to do wrong.
struct Mutation {
  bool tanh_gelu = false;
  std::size_t pooled_token = 0;
  bool zero_class_token = false;
};

/// The ViT of kConfig in float64.
class Vit {
 public:
  Vit(const Tensors& tensors, const Mutation& mutation) : tensors_(tensors), mutation_(mutation) {}

  [[nodiscard]] Vector embed(std::span<const std::uint8_t> patches) const {
    Matrix x = tokens_of(patches);
    for (int layer = 0; layer < 2; ++layer) {
      const std::string name = fmt::format("encoder.layer.{}.", layer);
      add(x, attend(map(x, [&](const Vector& row) { return norm(name + "layernorm_before", row); }),
                    name + "attention."));
      add(x, map(x, [&](const Vector& row) {
            Vector inner = linear(name + "intermediate.dense", norm(name + "layernorm_after", row));
            std::ranges::transform(inner, inner.begin(), [&](double y) { return gelu(y); });
            return linear(name + "output.dense", inner);
          }));
    }
    return norm("layernorm", x[mutation_.pooled_token]);
  }

 private:
  static constexpr std::size_t kHidden = 32;
  static constexpr std::size_t kPatch = 8;

  template <typename Function>
  static Matrix map(const Matrix& rows, const Function& function) {
    Matrix results;
    std::ranges::transform(rows, std::back_inserter(results), function);
    return results;
  }
  static void add(Matrix& x, const Matrix& branch) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::ranges::transform(x[i], branch[i], x[i].begin(), std::plus());
    }
  }
  [[nodiscard]] double gelu(double y) const {
    return mutation_.tanh_gelu
               ? y / 2 *
                     (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (y + 0.044715 * y * y * y)))
               : y / 2 * (1 + std::erf(y / std::numbers::sqrt2));
  }
  [[nodiscard]] Vector norm(const std::string& name, const Vector& x) const {
    double mean = 0;
    double square = 0;
    for (const double value : x) {
      mean += value / static_cast<double>(x.size());
      square += value * value / static_cast<double>(x.size());
    }
    const auto& weight = tensors_.at(name + ".weight");
    const auto& bias = tensors_.at(name + ".bias");
    Vector y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = (x[i] - mean) / std::sqrt(square - mean * mean + 1e-12) * weight[i] + bias[i];
    }
    return y;
  }
  [[nodiscard]] Vector linear(const std::string& name, const Vector& x) const {
    const auto& weight = tensors_.at(name + ".weight");
    const auto& bias = tensors_.at(name + ".bias");
    Vector y(bias.begin(), bias.end());
    for (std::size_t o = 0; o < y.size(); ++o) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[o] += double{weight[o * x.size() + i]} * x[i];
      }
    }
    return y;
  }
  [[nodiscard]] Matrix tokens_of(std::span<const std::uint8_t> patches) const {
    constexpr std::array kMean{0.4, 0.5, 0.6};
    constexpr std::array kDeviation{0.2, 0.3, 0.25};
    const auto& class_token = tensors_.at("embeddings.cls_token");
    const auto& positions = tensors_.at("embeddings.position_embeddings");
    Matrix x;
    x.emplace_back(kHidden);
    for (std::size_t i = 0; i < kHidden && !mutation_.zero_class_token; ++i) {
      x[0][i] = class_token[i];
    }
    for (std::size_t patch = 0; patch < patches.size() / (3 * kPatch * kPatch); ++patch) {
      Vector pixels;  // channels first, as torch's convolution has them
      for (std::size_t channel = 0; channel < 3; ++channel) {
        for (std::size_t i = 0; i < kPatch * kPatch; ++i) {
          const double value = patches[(patch * kPatch * kPatch + i) * 3 + channel] / 255.0;
          pixels.push_back((value - kMean[channel]) / kDeviation[channel]);
        }
      }
      x.push_back(linear("embeddings.patch_embeddings.projection", pixels));
    }
    for (std::size_t token = 0; token < x.size(); ++token) {
      for (std::size_t i = 0; i < kHidden; ++i) {
        x[token][i] += positions[token * kHidden + i];
      }
    }
    return x;
  }
  [[nodiscard]] Matrix attend(const Matrix& x, const std::string& name) const {
    const auto project = [&](const std::string& which) {
      return map(x, [&](const Vector& row) { return linear(name + "attention." + which, row); });
    };
    const Matrix query = project("query");
    const Matrix key = project("key");
    const Matrix value = project("value");
    constexpr std::size_t kWidth = kHidden / 2;
    Matrix mixed(x.size(), Vector(kHidden));
    for (std::size_t head = 0; head < kHidden; head += kWidth) {
      for (std::size_t q = 0; q < x.size(); ++q) {
        Vector weights;
        double sum = 0;
        for (std::size_t k = 0; k < x.size(); ++k) {
          double score = 0;
          for (std::size_t i = head; i < head + kWidth; ++i) {
            score += query[q][i] * key[k][i] / 4.0;
          }
          sum += weights.emplace_back(std::exp(score));
        }
        for (std::size_t k = 0; k < x.size(); ++k) {
          for (std::size_t i = head; i < head + kWidth; ++i) {
            mixed[q][i] += weights[k] / sum * value[k][i];
          }
        }
      }
    }
    return map(mixed, [&](const Vector& row) { return linear(name + "output.dense", row); });
  }

  const Tensors& tensors_;
  Mutation mutation_;
};

class FamilyTest : public testing::Test {
 protected:
  FamilyTest() {
    write_text(folder_.path() / "config.json", kConfig);
    write_text(folder_.path() / "preprocessor_config.json", kPreprocessor);
    std::vector<TensorEntry> entries;
    std::string data;
    for (const TensorSpec& spec : vision_tensors(parse_config(kConfig, "config.json", kBoth))) {
      std::vector<float>& values = tensors_[spec.name];
      values.resize(static_cast<std::size_t>(spec.shape.elements()));
      const bool is_norm = spec.name.find("norm") != std::string::npos;
      const double deviation =
          spec.is_bias || is_norm || spec.name.starts_with("embeddings.p") ? 0.3 : 0.25;
      std::normal_distribution<double> normal(is_norm && !spec.is_bias ? 1.0 : 0.0, deviation);
      std::ranges::generate(values, [&] { return static_cast<float>(normal(random_)); });
      const auto dims = spec.shape.dims();
      const std::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                   values.size() * sizeof(float));
      entries.push_back({.name = spec.name,
                         .dtype = "F32",
                         .shape = {dims.begin(), dims.end()},
                         .bytes = bytes.size()});
      data += bytes;
    }
    write_text(weights_, safetensors_header(entries) + data);
    patches_.resize(kImages * kImageBytes);
    std::ranges::generate(patches_, [&] { return static_cast<std::uint8_t>(random_() >> 9); });
  }

  [[nodiscard]] Checkpoint open() const { return Checkpoint(folder_.path(), {}, {}, {}, kBoth); }

  [[nodiscard]] std::vector<float> features(std::unique_ptr<ops::Backend> backend,
                                            Features::Kind kind, std::size_t rows) const {
    Encoder encoder(open(), std::move(backend));
    std::vector<float> found(kImages * rows * kWidth, NAN);
    const std::vector<PatchGrid> grids(kImages);
    encoder.features({.kind = kind}, patches_, grids,
                     {.bytes = std::as_writable_bytes(std::span(found))});
    return found;
  }
  [[nodiscard]] std::vector<float> embed(std::unique_ptr<ops::Backend> backend) const {
    return features(std::move(backend), Features::Kind::kPooled, 1);
  }

  /// The relative error of embeddings, the greatest of any image's.
  [[nodiscard]] double error(std::span<const float> embeddings,
                             const Mutation& mutation = {}) const {
    double worst = 0;
    for (std::size_t image = 0; image < kImages; ++image) {
      const Vector want = Vit(tensors_, mutation)
                              .embed(std::span(patches_).subspan(image * kImageBytes, kImageBytes));
      double difference = 0;
      double square = 0;
      for (std::size_t i = 0; i < kWidth; ++i) {
        difference += std::pow(embeddings[image * kWidth + i] - want[i], 2);
        square += want[i] * want[i];
      }
      const double relative = std::sqrt(difference / square);
      worst = relative <= worst ? worst : relative;  // NaN stays
    }
    return worst;
  }

  static constexpr std::size_t kImages = 3;
  static constexpr std::size_t kImageBytes = 32 * 32 * 3;
  static constexpr std::size_t kWidth = 32;
  TemporaryFolder folder_;
  std::filesystem::path weights_ = folder_.path() / "model.safetensors";
  std::mt19937 random_{5};
  Tensors tensors_;
  std::vector<std::uint8_t> patches_;
};

TEST_F(FamilyTest, ReferenceAndCpuGiveTheEmbeddingsOfANetworkOfItsOwn) {
  EXPECT_LT(error(embed(ops::reference::make_backend())), 1e-6);
  for (const int threads : {1, 3}) {
    const auto embeddings =
        embed(make_backend({.device = "cpu", .precision = Precision::kFp32, .threads = threads}));
    constexpr double kLimit = 1e-5;
    EXPECT_LT(error(embeddings), kLimit) << threads;
    EXPECT_GT(error(embeddings, {.tanh_gelu = true}), 2 * kLimit);
    EXPECT_GT(error(embeddings, {.pooled_token = 1}), 2 * kLimit);
    EXPECT_GT(error(embeddings, {.zero_class_token = true}), 2 * kLimit);
  }
}

TEST_F(FamilyTest, TheClassTokenIsTheFirstOfTheTokens) {
  const auto backend = [] {
    return make_backend({.device = "cpu", .precision = Precision::kFp32, .threads = 1});
  };
  constexpr std::size_t kTokens = 17;
  const auto tokens = features(backend(), Features::Kind::kLast, kTokens);
  EXPECT_LT(error(embed(backend())), 1e-5);
  std::vector<float> first;
  for (std::size_t image = 0; image < kImages; ++image) {
    const auto token = std::span(tokens).subspan(image * kTokens * kWidth, kWidth);
    first.insert(first.end(), token.begin(), token.end());
  }
  EXPECT_LT(error(first), 1e-5);
  EXPECT_TRUE(
      contains(error_of([&] { (void)features(backend(), Features::Kind::kPatches, kTokens); }),
               "no pooling head that attends to patches"));
}

TEST_F(FamilyTest, ItIsReadOnlyWhereItIsAmongTheFamilies) {
  EXPECT_EQ(open().config().vision.family, &kVit);
  const std::string refused = error_of([&] { const Checkpoint checkpoint(folder_.path()); });
  EXPECT_TRUE(contains(refused, "model_type \"vit\" is not supported; supported are SigLIP and"))
      << refused;
  const std::string others =
      error_of([] { (void)parse_config(R"({"model_type":"swin"})", "config.json", kBoth); });
  EXPECT_TRUE(contains(others, "ViT (model_type \"vit\")")) << others;
  EXPECT_EQ(parse_config(R"({"model_type":"siglip_vision_model"})", "config.json", kBoth).family,
            &siglip);
}

TEST_F(FamilyTest, MissingTensorsHaveItsNames) {
  std::string file = read_text(weights_);
  write_text(weights_, replaced(file, "encoder.layer.1.output.dense.bias",
                                "encoder.layer.1.output.dense.bits"));
  const std::string missing = error_of([&] { (void)open(); });
  EXPECT_TRUE(contains(
      missing, "1 tensors of the vision tower are missing: encoder.layer.1.output.dense.bias"))
      << missing;
}

TEST_F(FamilyTest, ADeviceWithoutItsOperatorsSaysWhyBeforeItComputes) {
  if (gpu::kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  std::unique_ptr<ops::Backend> emulated =
      make_backend({.device = "emu:sm_90a", .precision = Precision::kBf16, .threads = 1});
  const std::string refused = error_of([&] { Encoder(open(), std::move(emulated)); });
  EXPECT_TRUE(contains(refused, "cannot run this model")) << refused;
  EXPECT_TRUE(contains(refused, "GPUs compute GELU by tanh, not by erf")) << refused;
}

}  // namespace
}  // namespace fovea::model
