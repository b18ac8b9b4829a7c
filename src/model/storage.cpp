// Scales of narrow activations: from bounds for e4m3, from calibration for integers.
#include "model/storage.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/text.hpp"
#include "model/calibration.hpp"

namespace fovea::model {
namespace {

using ops::Stored;

/// GELU is never below this.
constexpr double kGeluLow = -0.17004;
constexpr double kU8Steps = 255;
constexpr double kI8Max = 127;
/// Images other than those of the calibration may go beyond its peaks.
constexpr double kRoom = 1.1;

std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

/// The least power of two that maps `bound` into e4m3. Powers of two scale exactly.
Stored as_e4m3(double bound) {
  const double scale = std::exp2(std::ceil(std::log2(std::max(bound, 1e-30) / kE4M3Max)));
  return {.type = DType::kE4M3, .scale = static_cast<float>(scale)};
}

/// Bounds of one layer's activations, from its weights.
class Bounds {
 public:
  Bounds(const Checkpoint& checkpoint, std::int64_t layer)
      : checkpoint_(checkpoint),
        prefix_(fmt::format("vision_model.encoder.layers.{}.", layer)),
        largest_(largest_normed(checkpoint.config().vision.hidden)) {}

  /// Of a norm's output, without the norm's bias.
  [[nodiscard]] double normed(const char* norm) const {
    double peak = 0;
    for (const float weight : checkpoint_.load(prefix_ + norm + ".weight").span()) {
      peak = std::max(peak, std::abs(static_cast<double>(weight)));
    }
    return peak * largest_;
  }

  /// Of a linear layer's output after a norm. A normed vector before its weight has length
  /// sqrt(width) at most and sums to zero: Cauchy and Schwarz give the rest.
  [[nodiscard]] double linear(const char* norm, const char* name, bool with_bias) const {
    const auto gain = checkpoint_.load(prefix_ + norm + ".weight");
    const auto shift = checkpoint_.load(prefix_ + norm + ".bias");
    const auto weight = checkpoint_.load(prefix_ + name + ".weight");
    const auto bias = checkpoint_.load(prefix_ + name + ".bias");
    const std::size_t width = gain.size();
    double peak = 0;
    for (std::size_t o = 0; o < bias.size(); ++o) {
      double sum = 0;
      double squares = 0;
      double constant = bias[o];
      for (std::size_t i = 0; i < width; ++i) {
        const double w = weight[o * width + i];
        sum += w * gain[i];
        squares += w * gain[i] * w * gain[i];
        constant += w * shift[i];
      }
      const auto n = static_cast<double>(width);
      const double spread = std::sqrt(std::max(0.0, squares - sum * sum / n) * n);
      peak = std::max(peak, spread + (with_bias ? std::abs(constant) : 0.0));
    }
    return peak;
  }

 private:
  const Checkpoint& checkpoint_;
  std::string prefix_;
  double largest_;
};

Stored plan_normed(DType type, const Bounds& bounds, const char* norm) {
  // Integers have a scale for each row instead.
  return type == DType::kE4M3 ? as_e4m3(bounds.normed(norm)) : Stored{.type = type};
}

Stored plan_attended(DType type, const Bounds& bounds, const LayerPeaks* peaks) {
  if (type == DType::kE4M3) {
    return as_e4m3(bounds.linear("layer_norm1", "self_attn.v_proj", false));
  }
  if (type == DType::kI8) {
    return {.type = type, .scale = static_cast<float>(peaks->attended * kRoom / kI8Max)};
  }
  return {.type = type};
}

Stored plan_inner(DType type, const Bounds& bounds, const LayerPeaks* peaks) {
  if (type == DType::kE4M3) {
    return as_e4m3(bounds.linear("layer_norm2", "mlp.fc1", true));
  }
  if (type == DType::kU8) {
    return {.type = type,
            .scale = static_cast<float>((peaks->inner * kRoom - kGeluLow) / kU8Steps),
            .offset = static_cast<float>(kGeluLow)};
  }
  return {.type = type};
}

}  // namespace

double largest_normed(std::int64_t width) {
  return std::sqrt(static_cast<double>(std::max<std::int64_t>(1, width - 1)));
}

std::vector<LayerStorage> plan_storage(const Checkpoint& checkpoint, ops::Backend& backend) {
  const ops::TensorTypes types = backend.types();
  const std::int64_t layers = checkpoint.config().vision.layers;
  std::optional<Calibration> calibration;
  if (types.attended == DType::kI8 || types.inner == DType::kU8) {
    calibration = read_calibration(checkpoint.folder(), layers);
    if (!calibration) {
      fail(
          "{}: int8 needs the ranges of the model's activations: run fovea calibrate on the model "
          "and a few hundred of your images, or use another precision",
          io::escape(checkpoint.folder().native()));
    }
  }
  std::vector<LayerStorage> storage(count(layers));
  backend.for_each(storage.size(), [&](std::size_t i) {
    const Bounds bounds(checkpoint, static_cast<std::int64_t>(i));
    const LayerPeaks* const peaks = calibration ? &calibration->layers[i] : nullptr;
    storage[i] = {.stream = types.stream,
                  .normed1 = plan_normed(types.normed, bounds, "layer_norm1"),
                  .qkv = types.qkv,
                  .attended = plan_attended(types.attended, bounds, peaks),
                  .normed2 = plan_normed(types.normed, bounds, "layer_norm2"),
                  .inner = plan_inner(types.inner, bounds, peaks)};
  });
  return storage;
}

}  // namespace fovea::model
