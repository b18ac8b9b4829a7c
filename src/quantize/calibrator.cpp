// Rounds layers in parallel and writes them to the calibration file.
#include "quantize/calibrator.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <vector>

#include "core/dtype.hpp"
#include "model/calibration.hpp"
#include "model/layer_weights.hpp"
#include "ops/call.hpp"

namespace fovea::quantize {
namespace {

// The headroom above the largest observed activation, because other images may have slightly larger
// ones. It costs no precision in e4m3, whose steps grow with the values.
constexpr float kInt8Headroom = 1.1F;
constexpr float kE4M3Headroom = 2.0F;

/// Returns the scale of a stored 8-bit input, for inputs without row scales.
float input_scale(const InputStatistics& inputs, DType type) {
  const float peak = std::ranges::max(inputs.peaks);
  if (type == DType::kI8) {
    constexpr float kMaxValue = 127 + ops::kGeluI8Offset;
    return std::max(kInt8Headroom * peak / kMaxValue, ops::kMinGeluI8Scale);
  }
  return peak > 0 ? kE4M3Headroom * peak / kE4M3Max : 1.0F;
}

}  // namespace

std::filesystem::path round_and_write(
    const model::Checkpoint& checkpoint, const Observations& observations, Precision precision,
    std::int64_t images, std::int64_t bf16_layers, ThreadPool& pool,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress) {
  const auto count = static_cast<std::size_t>(checkpoint.tower().layers - bf16_layers);
  constexpr std::size_t kPlaces = std::size(model::kCalibratedPlaces);
  std::vector<RoundedLayer> rounded_layers(count * kPlaces);
  std::vector<std::vector<float>> divisors(count * kPlaces);
  std::vector<model::LayerToStore> layers(count * kPlaces);
  std::atomic<std::uint64_t> done = 0;
  // The last places have the largest layers. They come first, so that none runs alone at the end.
  pool.parallel_for(rounded_layers.size(), [&](std::size_t task, int /*worker*/) {
    const std::size_t index = task % count;
    const std::size_t place = kPlaces - 1 - task / count;
    const ops::Place name = model::kCalibratedPlaces[place];
    const std::int64_t layer = bf16_layers + static_cast<std::int64_t>(index);
    model::LayerParameters parameters = model::load_layer(checkpoint, name, layer);
    const InputStatistics& inputs = observations.at(name, static_cast<std::size_t>(layer));
    const DType type = model::calibrated_type(name, precision);
    const std::size_t number = index * kPlaces + place;
    layers[number] = {.name = model::calibrated_name(checkpoint.tower(), name, layer),
                      .out = static_cast<std::int64_t>(parameters.bias.size()),
                      .in = static_cast<std::int64_t>(inputs.width),
                      .type = type};
    const std::span<float> weight = parameters.weight.span();
    if (name == model::kPlaceOfStaticInputs) {
      rounded_layers[number] = round_layer(weight, parameters.bias.span(), inputs, type);
      layers[number].input_scale = input_scale(inputs, type);
    } else {  // the norm before this layer divides the columns of its inputs at no cost
      divisors[number] = balancing_divisors(weight, inputs);
      for (std::size_t i = 0; i < weight.size(); ++i) {
        weight[i] *= divisors[number][i % inputs.width];
      }
      rounded_layers[number] = round_layer(weight, parameters.bias.span(),
                                           divide_inputs(inputs, divisors[number]), type);
      layers[number].divisor = divisors[number];
    }
    layers[number].rounded = rounded_layers[number].rounded;
    layers[number].scale = rounded_layers[number].scale;
    layers[number].bias = rounded_layers[number].bias;
    if (on_progress) {
      on_progress(++done, rounded_layers.size());
    }
  });
  return model::write_calibration(checkpoint, precision, layers, images, bf16_layers);
}

}  // namespace fovea::quantize
