// The precisions that a command uses when none was named, and those that the device lacks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/encoder.hpp"
#include "model/encoder.hpp"

namespace fovea {

/// `named`, or when none is named every precision that is compared and that the device is likely to
/// have.
[[nodiscard]] std::vector<Precision> precisions_or_all(const std::vector<Precision>& named,
                                                       const std::string& device);

/// Whether `device` names a GPU, or is "auto" where there is one.
[[nodiscard]] bool means_gpu(const std::string& device);

/// The encoder that `options` ask for. When the device refuses and `optional` is set: nothing, and
/// the device's reason in `why`; otherwise the refusal is thrown.
[[nodiscard]] std::unique_ptr<model::Encoder> try_encoder(const model::Checkpoint& checkpoint,
                                                          const EncoderOptions& options,
                                                          bool optional, std::string& why);

}  // namespace fovea
