// The precisions that a command uses by default, and the handling of those that the device lacks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/encoder.hpp"
#include "model/encoder.hpp"

namespace fovea {

/// Returns `named`, or when it is empty every precision that is compared by default and likely to
/// be supported by the device.
[[nodiscard]] std::vector<Precision> precisions_or_all(const std::vector<Precision>& named,
                                                       const std::string& device);

/// Whether `device` names a GPU, or is "auto" where there is one.
[[nodiscard]] bool means_gpu(const std::string& device);

/// Returns the encoder for `options`. When the device does not support them: if `optional` is set,
/// returns nothing and sets `why` to the reason; otherwise throws.
[[nodiscard]] std::unique_ptr<model::Encoder> try_encoder(const model::Checkpoint& checkpoint,
                                                          const EncoderOptions& options,
                                                          bool optional, std::string& why);

}  // namespace fovea
