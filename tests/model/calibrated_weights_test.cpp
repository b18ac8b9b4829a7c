// What a backend gets of a calibrated model: 8-bit weights that fit the norms before them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends.hpp"
#include "core/thread_pool.hpp"
#include "files.hpp"
#include "fovea/model.hpp"
#include "model/checkpoint.hpp"
#include "model/encoder.hpp"
#include "model/encoder_weights.hpp"
#include "quantize/calibrator.hpp"
#include "quantize/observer.hpp"

namespace fovea::model {
namespace {

using ops::PreparedPtr;

/// Asks for the weights of an 8-bit precision, keeps copies, and runs nothing.
class KeepingBackend final : public ops::Backend {
 public:
  struct Linear {
    std::vector<float> weight;  // as rounded
    std::vector<float> bias;
    std::int64_t in;
  };
  struct Norm {
    std::vector<float> weight, bias;
  };

  [[nodiscard]] std::string description() const override { return "none"; }
  [[nodiscard]] Precision precision() const override { return Precision::kInt8; }
  [[nodiscard]] int threads() const override { return 1; }
  [[nodiscard]] ops::TensorTypes types() const override {
    return {.normed = DType::kI8, .inner = DType::kI8, .row_scales = true};
  }
  [[nodiscard]] Support can_run(const ops::LinearProblem&) const override { return {}; }
  [[nodiscard]] Support can_run(const ops::PoolProblem&) const override { return {}; }

  [[nodiscard]] PreparedPtr prepare(const ops::PatchEmbedWeights&) override { return nothing(); }
  [[nodiscard]] PreparedPtr prepare(const ops::PoolWeights&) override { return nothing(); }
  [[nodiscard]] PreparedPtr prepare(const ops::LayerNormWeights& weights) override {
    norms.push_back({{weights.weight.begin(), weights.weight.end()},
                     {weights.bias.begin(), weights.bias.end()}});
    return nothing();
  }
  [[nodiscard]] PreparedPtr prepare(const ops::LinearWeights& weights) override {
    Linear& kept = linears.emplace_back();
    kept.in = weights.in;
    kept.bias.assign(weights.bias.begin(), weights.bias.end());
    for (std::size_t at = 0; at < weights.rounded.size(); ++at) {
      kept.weight.push_back(static_cast<float>(static_cast<std::int8_t>(weights.rounded[at])) *
                            weights.rounded_scale[at / static_cast<std::size_t>(weights.in)]);
    }
    return nothing();
  }
  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    for (std::size_t i = 0; i < count; ++i) {
      task(i);
    }
  }
  void run(const ops::Batch&,
           const std::function<void(ops::Executor&, const ops::Slice&)>&) override {}
  [[nodiscard]] std::int64_t preferred_batch() const override { return 1; }
  [[nodiscard]] std::string take_note() override { return {}; }
  [[nodiscard]] HostBuffer allocate_input(std::size_t bytes) override { return HostBuffer(bytes); }
  [[nodiscard]] ops::Profile profile() const override { return {}; }
  void reset_profile() override {}
  [[nodiscard]] double device_seconds() const override { return 0; }

  std::vector<Norm> norms;      // the one behind the layers, then two a layer
  std::vector<Linear> linears;  // qkv, out, fc1, fc2 of each layer

 private:
  static PreparedPtr nothing() { return std::make_unique<ops::Prepared>(); }
};

// Norm and layer share columns out between them; what they make of a normalised row is the model's.
TEST(CalibratedWeights, NormsAndLayersMakeTheModelsProducts) {
  const TemporaryFolder folder;
  init_checkpoint({.preset = "tiny", .folder = folder.path() / "m", .threads = 1});
  const Checkpoint checkpoint(folder.path() / "m");
  const VisionConfig& vision = checkpoint.config().vision;
  quantize::Observations observations;
  constexpr std::int64_t kImages = 12;
  {
    std::vector<std::uint8_t> pixels(
        static_cast<std::size_t>(kImages * vision.patches() * vision.patch_elements()));
    std::minstd_rand random(5);
    std::ranges::generate(pixels, [&] { return static_cast<std::uint8_t>(random() >> 9); });
    Encoder encoder(checkpoint,
                    quantize::observe(make_backend({.precision = Precision::kFp32, .threads = 2}),
                                      {"qkv", "fc1", "fc2"}, observations));
    std::vector<float> embeddings(static_cast<std::size_t>(kImages * vision.hidden));
    encoder.encode(pixels, kImages, embeddings);
  }
  ThreadPool pool(2);
  quantize::round_and_write(checkpoint, observations, Precision::kInt8, kImages, pool);

  KeepingBackend kept;
  const EncoderWeights weights(checkpoint, kept);
  for (std::int64_t layer = 0; layer < vision.layers; ++layer) {
    for (const bool first : {true, false}) {
      const std::string name = "vision_model.encoder.layers." + std::to_string(layer) +
                               (first ? ".layer_norm1" : ".layer_norm2");
      const auto gamma = checkpoint.load(name + ".weight");
      const auto beta = checkpoint.load(name + ".bias");
      const LayerParameters exact = load_layer(checkpoint, first ? "qkv" : "fc1", layer);
      const auto index = static_cast<std::size_t>(layer);
      const KeepingBackend::Norm& norm = kept.norms.at(2 * index + (first ? 0 : 1));
      const KeepingBackend::Linear& linear = kept.linears.at(4 * index + (first ? 0 : 2));
      const auto in = static_cast<std::size_t>(linear.in);
      ASSERT_EQ(linear.weight.size(), exact.weight.size());
      double error = 0;
      double all = 0;
      float least = norm.weight[0] / gamma[0];
      float most = least;
      for (std::size_t at = 0; at < exact.weight.size(); ++at) {
        const std::size_t i = at % in;
        const double wanted = double{gamma[i]} * exact.weight[at];
        error += std::pow(double{norm.weight[i]} * linear.weight[at] - wanted, 2);
        all += wanted * wanted;
        least = std::min(least, norm.weight[i] / gamma[i]);
        most = std::max(most, norm.weight[i] / gamma[i]);
        ASSERT_NEAR(norm.bias[i] * gamma[i], beta[i] * norm.weight[i], 1e-5) << name << ' ' << i;
      }
      EXPECT_LT(error, 1e-3 * all) << name;
      EXPECT_GT(most, 1.2F * least) << name << ": columns that differ have different divisors";
    }
  }
}

}  // namespace
}  // namespace fovea::model
