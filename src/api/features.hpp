// Converts the public names of features into those of src/model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fovea/features.hpp"
#include "model/config.hpp"
#include "model/encoder.hpp"

namespace fovea {

/// Returns the features of a layer. Throws fovea::Error when the model does not provide them, or
/// when they are per token and its images have different numbers of tokens.
[[nodiscard]] model::Features to_model_features(const FeatureLayer& layer,
                                                const model::VisionConfig& vision);

/// Bytes of the features of one image.
[[nodiscard]] std::size_t feature_bytes(const model::Features& features,
                                        const model::VisionConfig& vision, OutputDType dtype);

/// The batch size for a run that holds several batches of results at once: `preferred`, or less
/// where the results would take too much memory.
[[nodiscard]] std::int64_t feature_batch(std::int64_t preferred, std::size_t bytes_per_image);

[[nodiscard]] inline DType stored_type(OutputDType dtype) {
  return dtype == OutputDType::kF32 ? DType::kF32 : DType::kF16;
}

}  // namespace fovea
