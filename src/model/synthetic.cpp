// Random weights with the statistics of trained towers. docs/presets.md explains the constants.
#include "model/synthetic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace fovea::model {
namespace {

// Residual stream: root mean square of a typical channel before the first and after the last layer.
constexpr double kFirstResidual = 0.043;
constexpr double kLastResidual = 0.4;
constexpr double kMaxGrowth = 1.6;  // maximum growth per layer, which limits models with few layers
// Fraction of the first residual's variance that is due to the position embedding.
constexpr double kPositionShare = 0.25;
// Outlier channels: the number of hidden channels per outlier, and their gains relative to others.
constexpr std::int64_t kChannelsPerOutlier = 256;
constexpr std::array<double, 4> kOutlierGains{30.0, -22.0, 55.0, -40.0};
// Gains of outlier channels within norms (trained norms damp them), and their extra noise.
constexpr double kOutlierGamma = 0.05;
constexpr double kOutlierNoise = 3.0;

constexpr double kGamma = 2.0;           // typical LayerNorm weight
constexpr double kQueryDeviation = 1.3;  // that of logits is about its square
constexpr double kKeyDeviation = 1.3;
constexpr double kHeadKeyDeviation = 0.9;  // lower, since the pooling head attends to more tokens
constexpr double kGeluDeviation = 1.3;     // standard deviation of GELU's input
constexpr double kGeluBias = -0.2;
constexpr double kGeluOutput = 0.6;  // deviation of GELU's output at that input
// The deviation of attention's output when values have deviation 1. Tokens become more similar with
// depth, so that averaging over them reduces it less.
constexpr double kFirstAttentionOutput = 0.62;
constexpr double kLastAttentionOutput = 0.85;
constexpr double kSmallBias = 0.1;
// Scale and bias of image-text logits, as in google/siglip2-base-patch16-224.
constexpr float kLogitScaleValue = 4.724453F;
constexpr float kLogitBiasValue = -16.771725F;
constexpr double kHeadOutlierGain = 9.0;  // embeddings have outlier channels, too

/// Returns 64 pseudo-random bits for a counter: SplitMix64's output function (Steele, Lea, Flood
/// 2014).
constexpr std::uint64_t mix(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t bits = key + counter * 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31);
}

/// Returns a nearly normal number with mean 0 and deviation 1: the sum of four 16-bit uniforms. It
/// needs only integer sums and one multiplication, so that every machine computes the same bits.
float noise(std::uint64_t key, std::uint64_t counter) {
  const std::uint64_t bits = mix(key, counter);
  const auto sum = static_cast<std::int32_t>((bits & 0xffffU) + ((bits >> 16) & 0xffffU) +
                                             ((bits >> 32) & 0xffffU) + (bits >> 48));
  constexpr float kScale = 1.0F / 37837.2F;  // 65536 / sqrt(12 / 4)
  return static_cast<float>(sum - 2 * 65535) * kScale;
}

/// Returns a uniform number in [0, 1).
double uniform(std::uint64_t key, std::uint64_t counter) {
  return static_cast<double>(mix(key, counter) >> 11) * 0x1p-53;
}

}  // namespace

void SyntheticTensor::fill(std::size_t begin, std::span<float> out) const {
  if (matrix_.columns == 0) {
    std::copy_n(table_.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
    return;
  }
  for (std::size_t index = 0; index < out.size(); ++index) {
    out[index] = noise(matrix_.key, begin + index);
  }
  if (matrix_.centred) {
    for (std::size_t run = 0; run < out.size(); run += kCentredRun) {
      float sum = 0.0F;
      for (std::size_t index = 0; index < kCentredRun; ++index) {
        sum += out[run + index];
      }
      for (std::size_t index = 0; index < kCentredRun; ++index) {
        out[run + index] -= sum * (1.0F / kCentredRun);
      }
    }
  }
  for (std::size_t index = 0; index < out.size();) {
    const std::size_t row = (begin + index) / matrix_.columns;
    const std::size_t end = std::min(out.size(), (row + 1) * matrix_.columns - begin);
    const float gain = matrix_.row_gain[row];
    for (; index < end; ++index) {
      out[index] *= gain;
    }
  }
}

SyntheticWeights::SyntheticWeights(const VisionConfig& config, std::uint64_t seed)
    : SyntheticWeights(config.tower(), seed) {
  vision_ = config;
}

SyntheticWeights::SyntheticWeights(const TextConfig& config, std::uint64_t seed)
    : SyntheticWeights(config.tower(), seed) {}

SyntheticWeights::SyntheticWeights(const TowerSpec& tower, std::uint64_t seed)
    : tower_(tower), seed_(seed), typical_share_(1.0) {
  const std::int64_t count = std::max<std::int64_t>(1, tower.hidden / kChannelsPerOutlier);
  const std::uint64_t places = key("outliers");
  double energy = static_cast<double>(tower.hidden - count);
  for (std::int64_t index = 0; index < count; ++index) {
    // One outlier in each interval of channels, so that they are distinct.
    const std::int64_t stretch = tower.hidden / count;
    const auto within = static_cast<std::int64_t>(
        uniform(places, static_cast<std::uint64_t>(index)) * static_cast<double>(stretch));
    const double gain = kOutlierGains[static_cast<std::size_t>(index) % kOutlierGains.size()];
    outliers_.push_back(
        {.channel = static_cast<std::size_t>(index * stretch + within), .gain = gain});
    energy += gain * gain;
  }
  typical_share_ = std::sqrt(static_cast<double>(tower.hidden) / energy);
}

std::uint64_t SyntheticWeights::key(std::string_view name) const {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return mix(hash, seed_);
}

double SyntheticWeights::residual_rms(std::int64_t layer) const {
  const double growth =
      std::pow(kLastResidual / kFirstResidual, 1.0 / static_cast<double>(tower_.layers));
  return kFirstResidual * std::pow(std::min(growth, kMaxGrowth), static_cast<double>(layer));
}

double SyntheticWeights::branch_rms(std::int64_t layer) const {
  const double before = residual_rms(layer);
  const double after = residual_rms(layer + 1);
  return std::sqrt((after * after - before * before) / 2.0);
}

std::vector<float> SyntheticWeights::noise_table(std::string_view name, std::size_t count,
                                                 double mean, double deviation) const {
  const std::uint64_t stream = key(name);
  std::vector<float> table(count);
  for (std::size_t index = 0; index < count; ++index) {
    table[index] = static_cast<float>(mean + deviation * noise(stream, index));
  }
  return table;
}

SyntheticWeights::Channels SyntheticWeights::norm(Part part, std::int64_t layer) const {
  const std::string name = tower_.stem(part, layer);
  const bool outliers = part != Part::kPoolNorm;
  const auto size = static_cast<std::size_t>(tower_.hidden);
  const double input = outliers ? typical_share_ : 1.0;
  const double typical = outliers ? kGamma : 1.0;
  Channels channels;
  channels.gamma = noise_table(fmt::format("{}.weight", name), size, typical, 0.25 * typical);
  channels.beta = noise_table(fmt::format("{}.bias", name), size, 0.0, kSmallBias);
  const std::uint64_t large = key(fmt::format("{}.large", name));
  for (std::size_t channel = 0; channel < size; ++channel) {
    if (uniform(large, channel) < 0.01) {
      channels.gamma[channel] *= 3.0F;
    }
  }
  double energy = 0.0;
  for (std::size_t channel = 0; channel < size; ++channel) {
    double value = channels.gamma[channel] * input;
    if (outliers) {
      for (const Outlier& outlier : outliers_) {
        if (outlier.channel == channel) {
          channels.gamma[channel] = static_cast<float>(kOutlierGamma * typical);
          value = channels.gamma[channel] * input * outlier.gain;
        }
      }
    }
    energy += value * value + channels.beta[channel] * channels.beta[channel];
  }
  channels.output_rms = std::sqrt(energy / static_cast<double>(size));
  return channels;
}

SyntheticTensor SyntheticWeights::matrix(const TensorSpec& tensor, double deviation, bool centred,
                                         double outlier_gain) const {
  SyntheticTensor::Matrix matrix{.key = key(tensor.name),
                                 .columns = static_cast<std::size_t>(tensor.shape[1]),
                                 .row_gain = noise_table(fmt::format("{}.rows", tensor.name),
                                                         static_cast<std::size_t>(tensor.shape[0]),
                                                         deviation, 0.15 * deviation),
                                 .centred = centred};
  if (outlier_gain != 1.0) {
    for (const Outlier& outlier : outliers_) {
      matrix.row_gain[outlier.channel] *= static_cast<float>(outlier_gain);
    }
  }
  return SyntheticTensor(std::move(matrix));
}

SyntheticTensor SyntheticWeights::reading(const TensorSpec& tensor, Part norm_part,
                                          double deviation) const {
  const double root_h = std::sqrt(static_cast<double>(tower_.hidden));
  return matrix(tensor, deviation / (norm(norm_part, tensor.layer).output_rms * root_h));
}

std::vector<float> SyntheticWeights::branch_bias(std::string_view name, std::int64_t layer) const {
  std::vector<float> bias = noise_table(name, static_cast<std::size_t>(tower_.hidden), 0.0,
                                        kSmallBias * branch_rms(layer));
  const double growth = (residual_rms(layer + 1) - residual_rms(layer)) / 2.0;
  for (const Outlier& outlier : outliers_) {
    bias[outlier.channel] = static_cast<float>(outlier.gain * growth);
  }
  return bias;
}

std::vector<float> SyntheticWeights::bias(const TensorSpec& tensor) const {
  const auto size = static_cast<std::size_t>(tensor.shape.elements());
  switch (tensor.part) {
    case Part::kPatchEmbed: {
      std::vector<float> bias = noise_table(tensor.name, size, 0.0, kSmallBias * kFirstResidual);
      set_outliers(bias);
      return bias;
    }
    case Part::kNorm1:
    case Part::kNorm2:
    case Part::kFinalNorm:
    case Part::kPoolNorm:
      return norm(tensor.part, tensor.layer).beta;
    case Part::kOut:
    case Part::kFc2:
      return branch_bias(tensor.name, tensor.layer);
    case Part::kFc1:
    case Part::kPoolFc1:
      return noise_table(tensor.name, size, kGeluBias, 0.3);
    default:
      return noise_table(tensor.name, size, 0.0, kSmallBias);
  }
}

SyntheticTensor SyntheticWeights::pool_projections(const TensorSpec& tensor) const {
  const std::int64_t h = tower_.hidden;
  const double root_h = std::sqrt(static_cast<double>(h));
  const double input = norm(Part::kFinalNorm).output_rms;
  SyntheticTensor::Matrix matrix{.key = key(tensor.name),
                                 .columns = static_cast<std::size_t>(h),
                                 .row_gain = {},
                                 .centred = false};
  for (std::int64_t row = 0; row < 3 * h; ++row) {
    const double deviation = row < h       ? kQueryDeviation / root_h
                             : row < 2 * h ? kHeadKeyDeviation / (input * root_h)
                                           : 1.0 / (input * root_h);
    matrix.row_gain.push_back(static_cast<float>(deviation));
  }
  return SyntheticTensor(std::move(matrix));
}

std::vector<float> SyntheticWeights::patch_filters(const TensorSpec& tensor) const {
  const auto p = static_cast<std::size_t>(vision_.patch);
  const std::uint64_t stream = key(tensor.name);
  const std::uint64_t grain = key("patch noise");
  const double deviation = kFirstResidual * std::sqrt(1.0 - kPositionShare);
  std::vector<float> filters(static_cast<std::size_t>(tensor.shape.elements()));
  std::vector<double> wave(3 * p * p);
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(tower_.hidden); ++channel) {
    const auto draw = [&](std::uint64_t index) { return uniform(stream, channel * 16 + index); };
    // A wave of a few cycles per patch, in a random direction, with a random colour.
    const bool flat = draw(0) < 0.2;
    const double cycles = flat ? 0.0 : 0.25 + 2.25 * draw(1) * draw(1);
    const double angle = std::numbers::pi * draw(2);
    const double phase = 2.0 * std::numbers::pi * draw(3);
    const double grey = draw(4) < 0.6 ? 1.0 : 0.2;
    std::array<double, 3> colour{};
    for (std::size_t c = 0; c < 3; ++c) {
      colour[c] = grey + (1.0 - grey) * 2.0 * (draw(5 + c) - 0.5) + 0.2 * (draw(8 + c) - 0.5);
    }
    double energy = 0.0;
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t y = 0; y < p; ++y) {
        for (std::size_t x = 0; x < p; ++x) {
          const double u = static_cast<double>(x) / static_cast<double>(p);
          const double v = static_cast<double>(y) / static_cast<double>(p);
          const double turn =
              2.0 * std::numbers::pi * cycles * (u * std::cos(angle) + v * std::sin(angle));
          const double value = colour[c] * (flat ? 1.0 : std::cos(turn + phase)) +
                               0.1 * noise(grain, channel * wave.size() + (c * p + y) * p + x);
          wave[(c * p + y) * p + x] = value;
          energy += value * value;
        }
      }
    }
    // Photographs have less contrast at higher frequencies, so filters are scaled up with
    // frequency.
    const double contrast = 0.35 * std::sqrt(3.0) * static_cast<double>(p) / (1.0 + 2.0 * cycles);
    const double scale = deviation / (std::sqrt(energy) * contrast);
    const std::size_t area = p * p;
    for (std::size_t index = 0; index < wave.size(); ++index) {
      // A NaFlex model's patches have their channels last.
      const std::size_t place = vision_.naflex ? index % area * 3 + index / area : index;
      filters[channel * wave.size() + place] = static_cast<float>(wave[index] * scale);
    }
  }
  return filters;
}

std::vector<float> SyntheticWeights::image_positions(const TensorSpec& tensor) const {
  const auto grid = static_cast<std::size_t>(vision_.grid());
  const auto h = static_cast<std::size_t>(tower_.hidden);
  const std::uint64_t stream = key(tensor.name);
  const double amplitude = kFirstResidual * std::sqrt(kPositionShare);
  std::vector<float> table(grid * grid * h);
  for (std::size_t channel = 0; channel < h; ++channel) {
    const auto draw = [&](std::uint64_t index) { return uniform(stream, channel * 8 + index); };
    // Whole periods over the grid, at least one, so that the mean of the table is zero.
    const double across = std::floor(4.0 * draw(0));
    const double down = across == 0.0 ? 1.0 + std::floor(3.0 * draw(1)) : std::floor(4.0 * draw(1));
    const double phase = 2.0 * std::numbers::pi * draw(2);
    for (std::size_t y = 0; y < grid; ++y) {
      for (std::size_t x = 0; x < grid; ++x) {
        const double turn = 2.0 * std::numbers::pi *
                            (across * static_cast<double>(x) + down * static_cast<double>(y)) /
                            static_cast<double>(grid);
        const std::size_t index = (y * grid + x) * h + channel;
        table[index] = static_cast<float>(
            amplitude * (1.3 * std::cos(turn + phase) + 0.3 * noise(stream ^ 1U, index)));
      }
    }
  }
  return table;
}

std::vector<float> SyntheticWeights::text_positions(const TensorSpec& tensor) const {
  std::vector<float> table =
      noise_table(tensor.name, static_cast<std::size_t>(tensor.shape.elements()), 0.0,
                  kFirstResidual * std::sqrt(kPositionShare));
  const auto h = static_cast<std::size_t>(tower_.hidden);
  for (std::size_t row = 0; row < table.size(); row += h) {
    set_outliers(std::span(table).subspan(row, h));
  }
  return table;
}

SyntheticTensor SyntheticWeights::make(const TensorSpec& tensor) const {
  if (tensor.is_bias) {
    return SyntheticTensor(bias(tensor));
  }
  const std::int64_t layer = tensor.layer;
  const double root_h = std::sqrt(static_cast<double>(tower_.hidden));
  const double root_m = std::sqrt(static_cast<double>(tower_.mlp));
  switch (tensor.part) {
    case Part::kPatchEmbed:
      return SyntheticTensor(patch_filters(tensor));
    case Part::kTokenTable:
      return matrix(tensor, kFirstResidual * std::sqrt(1.0 - kPositionShare));
    case Part::kPosition:
      return SyntheticTensor(tensor.tower == Tower::kVision ? image_positions(tensor)
                                                            : text_positions(tensor));
    case Part::kNorm1:
    case Part::kNorm2:
    case Part::kFinalNorm:
    case Part::kPoolNorm:
      return SyntheticTensor(norm(tensor.part, layer).gamma);
    case Part::kQuery:
      return reading(tensor, Part::kNorm1, kQueryDeviation);
    case Part::kKey:
      return reading(tensor, Part::kNorm1, kKeyDeviation);
    case Part::kValue:
      return reading(tensor, Part::kNorm1, 1.0);
    case Part::kOut: {
      const double progress = static_cast<double>(layer) / static_cast<double>(tower_.layers);
      const double output = std::lerp(kFirstAttentionOutput, kLastAttentionOutput, progress);
      return matrix(tensor, branch_rms(layer) / (output * root_h), false, kOutlierNoise);
    }
    case Part::kFc1:
      return reading(tensor, Part::kNorm2, kGeluDeviation);
    case Part::kFc2:
      return matrix(tensor, branch_rms(layer) / (kGeluOutput * root_m), true, kOutlierNoise);
    case Part::kProbe:
      return SyntheticTensor(
          noise_table(tensor.name, static_cast<std::size_t>(tensor.shape.elements()), 0.0, 1.0));
    case Part::kPoolAttention:
      return pool_projections(tensor);
    case Part::kPoolOut:
      return matrix(tensor, 0.35 / (kLastAttentionOutput * root_h), false, kHeadOutlierGain);
    case Part::kPoolFc1:
      return reading(tensor, Part::kPoolNorm, kGeluDeviation);
    case Part::kPoolFc2:
      return matrix(tensor, 1.0 / (kGeluOutput * root_m), true, kHeadOutlierGain);
    case Part::kProjection:
      return reading(tensor, Part::kFinalNorm, 1.0);
    case Part::kLogitScale:
      return SyntheticTensor(std::vector{kLogitScaleValue});
    case Part::kLogitBias:
      return SyntheticTensor(std::vector{kLogitBiasValue});
    case Part::kClassToken:
      break;
  }
  fail("there is no recipe for tensor \"{}\"", tensor.name);
}

void SyntheticWeights::set_outliers(std::span<float> first_residual) const {
  for (const Outlier& outlier : outliers_) {
    first_residual[outlier.channel] = static_cast<float>(outlier.gain * kFirstResidual);
  }
}

}  // namespace fovea::model
