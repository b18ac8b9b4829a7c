// Random weights with the statistics of a trained SigLIP (docs/presets.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/architecture.hpp"
#include "model/config.hpp"

namespace fovea::model {

/// A tensor whose values can be computed in any order and by several threads.
class SyntheticTensor {
 public:
  /// A tensor of known values.
  explicit SyntheticTensor(std::vector<float> table) : table_(std::move(table)) {}

  /// A matrix of independent noise: out[r, c] = row_gain[r] * noise(key, r * columns + c).
  /// If `centred`, each group of kCentredRun adjacent elements in a row sums to zero.
  struct Matrix {
    std::uint64_t key = 0;
    std::size_t columns = 0;
    std::vector<float> row_gain;  // one per row
    bool centred = false;
  };
  explicit SyntheticTensor(Matrix matrix) : matrix_(std::move(matrix)) {}

  static constexpr std::size_t kCentredRun = 16;

  /// Writes elements [begin, begin + out.size()). Both ends must be multiples of kCentredRun if the
  /// tensor is centred.
  void fill(std::size_t begin, std::span<float> out) const;

 private:
  std::vector<float> table_;
  Matrix matrix_;
};

/// Computes the random weights of a tower for one seed.
class SyntheticWeights {
 public:
  SyntheticWeights(const VisionConfig& config, std::uint64_t seed);
  SyntheticWeights(const TextConfig& config, std::uint64_t seed);

  /// Returns the values of a tensor from vision_tensors(config) or text_tensors(config).
  [[nodiscard]] SyntheticTensor make(const TensorSpec& tensor) const;

 private:
  SyntheticWeights(const TowerSpec& tower, std::uint64_t seed);

  struct Channels {
    std::vector<float> gamma;
    std::vector<float> beta;
    double output_rms = 1.0;  // root mean square of the norm's outputs over channels
  };

  [[nodiscard]] std::uint64_t key(std::string_view name) const;
  [[nodiscard]] double residual_rms(std::int64_t layer) const;
  [[nodiscard]] double branch_rms(std::int64_t layer) const;
  /// Returns the weights of a norm. Norms of the residual stream damp its outlier channels.
  [[nodiscard]] Channels norm(Part part, std::int64_t layer = 0) const;
  [[nodiscard]] std::vector<float> noise_table(std::string_view name, std::size_t count,
                                               double mean, double deviation) const;
  [[nodiscard]] SyntheticTensor matrix(const TensorSpec& tensor, double deviation,
                                       bool centred = false, double outlier_gain = 1.0) const;
  /// Returns the weight of a linear layer whose inputs are the outputs of a norm.
  [[nodiscard]] SyntheticTensor reading(const TensorSpec& tensor, Part norm_part,
                                        double deviation) const;
  [[nodiscard]] std::vector<float> branch_bias(std::string_view name, std::int64_t layer) const;
  [[nodiscard]] std::vector<float> bias(const TensorSpec& tensor) const;
  /// Returns query, key and value of the pooling head as one matrix.
  [[nodiscard]] SyntheticTensor pool_projections(const TensorSpec& tensor) const;
  [[nodiscard]] std::vector<float> patch_filters(const TensorSpec& tensor) const;
  [[nodiscard]] std::vector<float> image_positions(const TensorSpec& tensor) const;
  [[nodiscard]] std::vector<float> text_positions(const TensorSpec& tensor) const;

  struct Outlier {
    std::size_t channel;
    double gain;  // signed ratio of the channel's value to that of a typical channel
  };
  /// Sets the outlier channels of a first residual [hidden].
  void set_outliers(std::span<float> first_residual) const;

  TowerSpec tower_;
  VisionConfig vision_{};  // unused for a text tower
  std::uint64_t seed_;
  std::vector<Outlier> outliers_;
  double typical_share_;  // ratio of the rms of a typical channel to that of all channels
};

}  // namespace fovea::model
