// Where the calibrations of a model lie: beside its weights, or in a place of the user's own.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "fovea/precision.hpp"
#include "model/checkpoint.hpp"

namespace fovea::model {

/// The prefix of the names of calibrations, which may be beside the weights but are not weights.
inline constexpr std::string_view kCalibrationPrefix = "calibration-";

/// The name of the file for a precision that is calibrated.
[[nodiscard]] std::string calibration_name(Precision precision, Tower tower = Tower::kVision);

/// The calibration that a precision uses, where it is or would be: in the folder that the
/// checkpoint was given, else that of FOVEA_CALIBRATION, and there alone. Without one, in the first
/// of these that holds it:
///   the folder of the weights
///   the user's own: XDG_CACHE_HOME/fovea/calibrations/<fingerprint of the tower>
/// The user's own is before that of weights whose folder cannot be written, or is of the Hugging
/// Face cache, which holds what came from the hub alone.
[[nodiscard]] std::filesystem::path find_calibration(const Checkpoint& checkpoint,
                                                     Precision precision);

/// Where a new one is written: into the first of these folders, so that it is the one that is used.
/// Makes the folder.
[[nodiscard]] std::filesystem::path calibration_to_write(const Checkpoint& checkpoint,
                                                         Precision precision);

}  // namespace fovea::model
