// The precisions that a command uses by default, and encoders for those that the device supports.
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

/// Whether `device` names a GPU, or is "auto" on a machine with one.
[[nodiscard]] bool selects_gpu(const std::string& device);

/// Returns the encoder for `options`. When the device does not support them: if `optional` is set,
/// returns nothing and sets `reason` to the reason; otherwise throws.
[[nodiscard]] std::unique_ptr<model::Encoder> try_encoder(const model::Checkpoint& checkpoint,
                                                          const EncoderOptions& options,
                                                          bool optional, std::string& reason);

}  // namespace fovea
