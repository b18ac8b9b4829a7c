// What a backend gets of a calibrated model: 8-bit weights that fit the norms before them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends.hpp"
#include "core/thread_pool.hpp"
#include "files.hpp"
#include "fovea/model.hpp"
#include "model/calibration.hpp"
#include "model/checkpoint.hpp"
#include "model/encoder.hpp"
#include "model/vision_weights.hpp"
#include "quantize/calibrator.hpp"
#include "quantize/observer.hpp"

namespace fovea::model {
namespace {

using ops::PreparedPtr;

/// Notes what the network asks for, and computes nothing.
class NotingExecutor final : public ops::Executor {
 public:
  explicit NotingExecutor(std::span<const std::byte> workspace) : workspace_(workspace) {}

  std::vector<ops::LinearProblem> linears;
  std::vector<ops::LayerNormProblem> norms;

 private:
  void do_run(const ops::Call& call) override {
    if (const auto* const norm = std::get_if<ops::LayerNormCall>(&call)) {
      norms.push_back(norm->problem);
      check({bytes_of(norm->input), bytes_of(norm->output), bytes_of(norm->row_scales)});
    } else if (const auto* const linear = std::get_if<ops::LinearCall>(&call)) {
      linears.push_back(linear->problem);
      check({bytes_of(linear->input), bytes_of(linear->output), bytes_of(linear->row_scales)});
    }
  }

  static std::span<const std::byte> bytes_of(const ConstTensorView& tensor) {
    return {static_cast<const std::byte*>(tensor.data),
            tensor.data == nullptr
                ? 0
                : static_cast<std::size_t>(tensor.shape.elements()) * size_of(tensor.dtype)};
  }
  /// Tensors lie in the workspace, side by side.
  void check(std::vector<std::span<const std::byte>> tensors) const {
    std::erase_if(tensors, [](const auto& tensor) { return tensor.empty(); });
    std::ranges::sort(tensors, {}, [](const auto& tensor) { return tensor.data(); });
    const std::byte* end = workspace_.data();
    for (const auto& tensor : tensors) {
      EXPECT_GE(tensor.data(), end);
      end = tensor.data() + tensor.size();
    }
    EXPECT_LE(end, workspace_.data() + workspace_.size());
  }

  std::span<const std::byte> workspace_;
};

/// Asks for the weights of an 8-bit precision, keeps copies, and notes what is to run.
class KeepingBackend final : public ops::Backend {
 public:
  struct Linear {
    std::vector<float> weight;  // as rounded
    std::vector<float> bias;
    std::int64_t in;
    ops::Stored input;
    ops::Stored output;
    bool normed;
  };
  struct Norm {
    std::vector<float> weight, bias;
  };

  [[nodiscard]] std::string description() const override { return "none"; }
  [[nodiscard]] Precision precision() const override { return Precision::kInt8; }
  [[nodiscard]] int threads() const override { return 1; }
  [[nodiscard]] ops::TensorTypes types() const override {
    return {.normed = DType::kI8,
            .qkv = DType::kBF16,
            .attended = DType::kBF16,
            .inner = DType::kI8,
            .row_scales = true};
  }
  [[nodiscard]] Support can_run(const ops::BackendProblem&) const override { return {}; }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    for (std::size_t i = 0; i < count; ++i) {
      task(i);
    }
  }
  void run(const ops::Batch& batch,
           const std::function<void(ops::Executor&, const ops::Slice&)>& network) override {
    AlignedBuffer<std::byte> workspace(static_cast<std::size_t>(batch.images) *
                                       batch.workspace_bytes_per_image);
    NotingExecutor executor(workspace.span());
    network(executor, {.images = batch.images,
                       .input = batch.input.data(),
                       .output = batch.output.data(),
                       .workspace = workspace.data()});
    asked_linears = executor.linears;
    asked_norms = executor.norms;
  }
  [[nodiscard]] std::int64_t preferred_batch() const override { return 1; }

  std::vector<Norm> norms;      // the one behind the layers, then two a layer
  std::vector<Linear> linears;  // qkv, out, fc1, fc2 of each layer
  std::vector<ops::LinearProblem> asked_linears;
  std::vector<ops::LayerNormProblem> asked_norms;

 private:
  [[nodiscard]] PreparedPtr do_prepare(const ops::Weights& weights) override {
    if (const auto* const norm = std::get_if<ops::LayerNormWeights>(&weights)) {
      norms.push_back(
          {{norm->weight.begin(), norm->weight.end()}, {norm->bias.begin(), norm->bias.end()}});
    } else if (const auto* const linear = std::get_if<ops::LinearWeights>(&weights)) {
      keep(*linear);
    }
    return std::make_unique<ops::Prepared>();
  }
  void keep(const ops::LinearWeights& weights) {
    Linear& kept = linears.emplace_back();
    kept.in = weights.in;
    kept.input = weights.input;
    kept.output = weights.output;
    kept.normed = !weights.norm.weight.empty();
    kept.bias.assign(weights.bias.begin(), weights.bias.end());
    for (std::size_t at = 0; at < weights.rounded.size(); ++at) {
      kept.weight.push_back(static_cast<float>(static_cast<std::int8_t>(weights.rounded[at])) *
                            weights.rounded_scale[at / static_cast<std::size_t>(weights.in)]);
    }
  }
};

class CalibratedWeights : public testing::Test {
 protected:
  CalibratedWeights() {
    init_checkpoint({.preset = "tiny", .folder = folder_.path() / "m", .threads = 1});
    checkpoint_ = std::make_unique<Checkpoint>(folder_.path() / "m");
  }

  void calibrate(std::int64_t bf16_layers) {
    const VisionConfig& vision = checkpoint_->config().vision;
    constexpr std::int64_t kImages = 12;
    std::vector<std::uint8_t> pixels(
        static_cast<std::size_t>(kImages * vision.patches() * vision.patch_elements()));
    std::minstd_rand random(5);
    std::ranges::generate(pixels, [&] { return static_cast<std::uint8_t>(random() >> 9); });
    quantize::Observations observations;
    Encoder encoder(
        *checkpoint_,
        quantize::observe(make_backend({.precision = Precision::kFp32, .threads = 2}),
                          {ops::Place::kQkv, ops::Place::kFc1, ops::Place::kFc2}, observations));
    std::vector<float> embeddings(static_cast<std::size_t>(kImages * vision.hidden));
    encoder.encode(pixels, kImages, embeddings);
    ThreadPool pool(2);
    quantize::round_and_write(*checkpoint_, observations, Precision::kInt8, kImages, bf16_layers,
                              pool);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

// Norm and layer share columns out between them; what they make of a normalised row is the model's.
TEST_F(CalibratedWeights, NormsAndLayersMakeTheModelsProducts) {
  calibrate(0);
  const Checkpoint& checkpoint = *checkpoint_;
  const VisionConfig& vision = checkpoint.config().vision;
  KeepingBackend kept;
  const VisionWeights weights(checkpoint, kept);
  for (std::int64_t layer = 0; layer < vision.layers; ++layer) {
    for (const bool first : {true, false}) {
      const std::string name = "vision_model.encoder.layers." + std::to_string(layer) +
                               (first ? ".layer_norm1" : ".layer_norm2");
      const auto gamma = checkpoint.load(name + ".weight");
      const auto beta = checkpoint.load(name + ".bias");
      const LayerParameters exact =
          load_layer(checkpoint, first ? ops::Place::kQkv : ops::Place::kFc1, layer);
      const auto index = static_cast<std::size_t>(layer);
      const KeepingBackend::Norm& norm = kept.norms.at(1 + 2 * index + (first ? 0 : 1));
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

// Layers that calibration left out are those of a backend without 8 bits, norms within; the others
// are as they were. Tensors of either size have room.
TEST_F(CalibratedWeights, FirstLayersMayStayInTheTypeOfAttention) {
  const VisionConfig& vision = checkpoint_->config().vision;
  for (std::int64_t bf16_layers = 0; bf16_layers <= vision.layers; ++bf16_layers) {
    calibrate(bf16_layers);
    auto backend = std::make_unique<KeepingBackend>();
    const KeepingBackend& kept = *backend;
    Encoder encoder(*checkpoint_, std::move(backend));
    EXPECT_EQ(encoder.description(),
              bf16_layers == 0
                  ? "none"
                  : fmt::format("none; the first {} of 3 layers are in bf16", bf16_layers));
    std::vector<std::uint8_t> pixels(
        static_cast<std::size_t>(2 * vision.patches() * vision.patch_elements()));
    std::vector<float> embeddings(static_cast<std::size_t>(2 * vision.hidden));
    encoder.encode(pixels, 2, embeddings);

    EXPECT_EQ(kept.asked_norms.size(), count(2 * (vision.layers - bf16_layers)));
    ASSERT_EQ(kept.linears.size(), count(4 * vision.layers));
    ASSERT_EQ(kept.asked_linears.size(), count(4 * vision.layers));
    for (std::size_t at = 0; at < kept.linears.size(); ++at) {
      const KeepingBackend::Linear& weights = kept.linears[at];
      const ops::LinearProblem& asked = kept.asked_linears[at];
      const bool eight_bits = at >= count(4 * bf16_layers);
      SCOPED_TRACE(to_string(asked) + " of layer " + std::to_string(asked.layer));
      EXPECT_EQ(asked.layer, static_cast<std::int64_t>(at / 4));
      EXPECT_EQ(weights.input.type, asked.input);
      EXPECT_EQ(weights.output.type, asked.output);
      EXPECT_EQ(weights.normed, asked.norm);
      const bool behind_norm = at % 4 == 0 || at % 4 == 2;
      EXPECT_EQ(asked.norm, behind_norm && !eight_bits);
      EXPECT_EQ(asked.row_scales, behind_norm && eight_bits);
      if (asked.place != ops::Place::kOut) {
        const DType wide = behind_norm ? DType::kF32 : DType::kBF16;  // the stream's, attention's
        EXPECT_EQ(asked.input, eight_bits ? DType::kI8 : wide);
        EXPECT_EQ(weights.weight.empty(), !eight_bits);
      }
      if (asked.place == ops::Place::kFc1) {
        EXPECT_EQ(asked.output, eight_bits ? DType::kI8 : DType::kBF16);
        EXPECT_EQ(weights.output.offset, eight_bits ? ops::kGeluI8Offset : 0);
        EXPECT_EQ(weights.output.scale != 1.0F, eight_bits);
      }
    }
  }
}

// A file that lacks other layers than those that it says, or a part of one.
TEST_F(CalibratedWeights, AFileWithoutWhatItNeedsIsRefused) {
  calibrate(1);
  const auto path = find_calibration(*checkpoint_, Precision::kInt8);
  const std::string file = read_text(path);
  KeepingBackend backend;
  const auto message = [&](std::string_view from, std::string_view to) {
    write_text(path, replaced(file, from, to));
    return error_of([&] { VisionWeights(*checkpoint_, backend); });
  };
  for (const std::string name :
       {"layers.1.self_attn.qkv.weight", "layers.1.mlp.fc2.bias", "layers.2.mlp.fc1.divisor"}) {
    const std::string told = message(name, "layers.9" + name.substr(8));
    EXPECT_TRUE(contains(told, name + "\" is missing; calibrate the model again")) << told;
  }
  const std::string told = message("bf16_layers", "bf16_Layers");
  EXPECT_TRUE(contains(told, "layers.0.")) << told;
  EXPECT_TRUE(contains(told, "is missing; calibrate the model again")) << told;
}

}  // namespace
}  // namespace fovea::model
