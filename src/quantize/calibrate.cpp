// Rounds the layers, several at a time, and hands them to the file.
#include "quantize/calibrate.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "model/calibration.hpp"
#include "model/encoder_weights.hpp"
#include "ops/weights.hpp"

namespace fovea::quantize {
namespace {

// Room above the largest activation seen: other photos may go a little further.
constexpr float kHeadroom = 1.1F;

/// What a stored 8-bit input is multiplied by; 0 where norms give each row a scale of its own.
float input_scale(std::string_view place, float peak, Precision precision) {
  if (place != model::kPlaceOfStaticInputs) {
    return 0.0F;
  }
  if (precision == Precision::kInt8) {
    constexpr float kLargest = 127 + ops::kGeluI8Offset;
    return std::max(kHeadroom * peak / kLargest, ops::kLeastGeluI8Scale);
  }
  return peak > 0 ? kHeadroom * peak / kE4M3Max : 1.0F;
}

}  // namespace

void round_and_write(const model::Checkpoint& checkpoint, const Observations& observations,
                     Precision precision, std::int64_t images, ThreadPool& pool) {
  const auto count = static_cast<std::size_t>(checkpoint.config().vision.layers);
  constexpr std::size_t kPlaces = std::size(model::kCalibratedPlaces);
  std::vector<RoundedLayer> rounded(count * kPlaces);
  std::vector<model::LayerToStore> layers(count * kPlaces);
  // The largest layers first, so that none is left for the end.
  pool.parallel_for(rounded.size(), [&](std::size_t task, int /*worker*/) {
    const std::size_t index = task % count;
    const std::size_t place = kPlaces - 1 - task / count;
    const std::string_view name = model::kCalibratedPlaces[place];
    const auto layer = static_cast<std::int64_t>(index);
    const model::LayerParameters parameters = model::load_layer(checkpoint, name, layer);
    const InputStatistics& inputs = observations.at(std::string(name), index);
    const std::size_t at = index * kPlaces + place;
    rounded[at] = round_layer(parameters.weight.span(), parameters.bias.span(), inputs, precision);
    layers[at] = {.name = model::calibrated_name(name, layer),
                  .out = static_cast<std::int64_t>(parameters.bias.size()),
                  .in = static_cast<std::int64_t>(inputs.width),
                  .rounded = rounded[at].rounded,
                  .scale = rounded[at].scale,
                  .bias = rounded[at].bias,
                  .input_scale = input_scale(name, inputs.peak, precision)};
  });
  model::write_calibration(checkpoint, precision, layers, images);
}

}  // namespace fovea::quantize
