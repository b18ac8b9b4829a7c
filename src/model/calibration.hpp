// Calibration: the 8-bit weights and activation scales of a model, made by `fovea calibrate`.
//
// The file is a safetensors file, calibration-int8.safetensors or calibration-fp8.safetensors, and
// calibration-int8-text.safetensors or the like for the text tower. For each layer NAME of the
// tower ("vision_model.encoder.layers.0.self_attn.qkv", "...mlp.fc1",
// "...mlp.fc2"):
//   NAME.weight       I8 [out, in]; with fp8 F8_E4M3 for fc2
//   NAME.scale        F32 [out]: weight[o, i] is about NAME.weight[o, i] * NAME.scale[o]
//   NAME.bias         F32 [out], less the mean error of the rounding
//   NAME.input_scale  F32 [1]: an 8-bit input (plus ops::kGeluI8Offset, if it is i8) times this is
//                     the value; 0: inputs have a scale per row
//   NAME.divisor      F32 [in], of qkv and fc1: what the norm before the layer divides its results
//                     by, column by column; NAME.weight has been multiplied by it "bf16_layers",
//                     I64 [1], is the number of first layers that are computed in bf16 and are not
//                     in the file; 0 if absent. Older versions of Fovea, which do not know this
//                     tensor, refuse such a file because layers are missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/buffer.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/stop.hpp"
#include "fovea/precision.hpp"
#include "model/checkpoint.hpp"
#include "model/safetensors.hpp"
#include "ops/call.hpp"

namespace fovea::model {

/// The places in an encoder layer whose weights calibration rounds, in the order of the forward
/// pass.
inline constexpr ops::Place kCalibratedPlaces[] = {ops::Place::kQkv, ops::Place::kFc1,
                                                   ops::Place::kFc2};

/// The place whose inputs have one scale for all rows, since the linear layer before it writes
/// them. The inputs of the other places come from norms and have a scale per row.
inline constexpr ops::Place kPlaceOfStaticInputs = ops::Place::kFc2;

/// The type to which the weights of a place and their inputs are rounded. `precision` must be a
/// calibrated one.
[[nodiscard]] DType calibrated_type(ops::Place place, Precision precision);

/// The name of a layer in the file: "vision_model.encoder.layers.3.mlp.fc1".
[[nodiscard]] std::string calibrated_name(const TowerSpec& tower, ops::Place place,
                                          std::int64_t layer);

/// The prefix of calibration files, to tell them from weights in the same folder.
inline constexpr std::string_view kCalibrationPrefix = "calibration-";

/// The name of the file for a calibrated precision.
[[nodiscard]] std::string calibration_name(Precision precision, Tower tower = Tower::kVision);

/// Returns the path of the calibration for a precision, which may not exist: in the calibration
/// folder given to the checkpoint, else in that of FOVEA_CALIBRATION. If neither is set, in the
/// first of these folders that has it:
///   - the folder of the weights
///   - the user's folder, XDG_CACHE_HOME/fovea/calibrations/<fingerprint of the tower>
///
/// The user's folder comes first if the folder of the weights is not writable or is in the Hugging
/// Face cache, which should contain only files from the hub.
[[nodiscard]] std::filesystem::path find_calibration(const Checkpoint& checkpoint,
                                                     Precision precision);

/// Returns the path for a new calibration in the first of the folders that find_calibration
/// searches, so that it takes precedence. Creates the folder.
[[nodiscard]] std::filesystem::path calibration_to_write(const Checkpoint& checkpoint,
                                                         Precision precision);

/// The 8-bit weights of one layer.
struct CalibratedLayer {
  AlignedBuffer<std::uint8_t> rounded;
  std::vector<float> scale;
  std::vector<float> bias;
  float input_scale = 0;
};

class Calibration {
 public:
  /// Opens the file found by find_calibration. Throws fovea::Error with the command to run when
  /// there is no file, or when it was made for other weights. Reading stops on the checkpoint's
  /// stop flag.
  Calibration(const Checkpoint& checkpoint, Precision precision);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The number of leading layers that are computed in bf16; the file contains all others.
  [[nodiscard]] std::int64_t bf16_layers() const { return bf16_layers_; }

  /// Reads a layer. Throws fovea::Error when it is missing or has another shape, or when its scales
  /// or biases are invalid.
  [[nodiscard]] CalibratedLayer layer(ops::Place place, std::int64_t index, std::int64_t out,
                                      std::int64_t in) const;

  /// Reads only CalibratedLayer::input_scale. Throws as layer() does.
  [[nodiscard]] float input_scale(ops::Place place, std::int64_t index) const;

  /// Reads the divisors [in] for the outputs of the norm before a layer. Throws as layer() does.
  [[nodiscard]] std::vector<float> divisor(ops::Place place, std::int64_t index,
                                           std::int64_t in) const;

 private:
  /// Throws fovea::Error with the file and the reason.
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> words, Args&&... args) const {
    fail("{}: {}; calibrate the model again", shown_,
         fmt::format(words, std::forward<Args>(args)...));
  }
  template <typename T>
  [[nodiscard]] AlignedBuffer<T> read(const std::string& name, std::string_view dtype,
                                      const std::vector<std::uint64_t>& shape) const;
  [[nodiscard]] std::vector<float> floats(const std::string& name, std::uint64_t count) const;
  /// Reads and checks bf16_layers. Throws fovea::Error if the model has fewer layers, or if the
  /// file contains one of the layers in bf16.
  [[nodiscard]] std::int64_t read_bf16_layers(std::int64_t layers) const;

  std::filesystem::path path_;
  std::string shown_;
  TowerSpec tower_;
  Precision precision_;
  StopFlag stop_;
  SafetensorsFile file_;
  std::int64_t bf16_layers_ = 0;
};

/// A layer to be written.
struct LayerToStore {
  std::string name;
  std::int64_t out = 0;
  std::int64_t in = 0;
  DType type = DType::kI8;
  std::span<const std::uint8_t> rounded{};
  std::span<const float> scale{};
  std::span<const float> bias{};
  float input_scale = 0;
  std::span<const float> divisor{};  // empty when no norm precedes the layer
};

/// Writes the file to calibration_to_write() atomically and returns its path. `images`: the number
/// of photos used. `bf16_layers`: the number of leading layers that are not in `layers`.
std::filesystem::path write_calibration(const Checkpoint& checkpoint, Precision precision,
                                        std::span<const LayerToStore> layers, std::int64_t images,
                                        std::int64_t bf16_layers = 0);

}  // namespace fovea::model
