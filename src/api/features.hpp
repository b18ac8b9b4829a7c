// Features by their public names, as a model understands them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fovea/features.hpp"
#include "model/config.hpp"
#include "model/encoder.hpp"

namespace fovea {

/// Throws fovea::Error when the model does not give them, or, for features of tokens, when its
/// images have different numbers of tokens.
[[nodiscard]] model::Features features_of(const FeatureLayer& layer,
                                          const model::VisionConfig& vision);

/// Bytes of one image's.
[[nodiscard]] std::size_t feature_bytes(const model::Features& what,
                                        const model::VisionConfig& vision, OutputDType dtype);

/// The batch size of a run that holds several batches of results: `preferred`, or fewer images,
/// whose results take some bytes in all.
[[nodiscard]] std::int64_t feature_batch(std::int64_t preferred, std::size_t bytes_of_each);

[[nodiscard]] inline DType stored_type(OutputDType dtype) {
  return dtype == OutputDType::kF32 ? DType::kF32 : DType::kF16;
}

}  // namespace fovea
