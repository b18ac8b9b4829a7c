// Which precisions to measure or check, and their names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/encoder.hpp"
#include "model/encoder.hpp"

namespace fovea {

/// "auto", "fp32", "bf16".
[[nodiscard]] std::string_view to_string(Precision precision);

/// The encoder of a model folder in one precision, or nothing with the device's reason in `why`
/// when the device lacks that precision.
[[nodiscard]] std::unique_ptr<model::Encoder> try_encoder(const model::Checkpoint& checkpoint,
                                                          EncoderOptions options,
                                                          Precision precision, std::string& why);

}  // namespace fovea
