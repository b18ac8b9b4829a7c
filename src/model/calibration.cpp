// Reading and writing the file that calibration leaves beside a model.
#include "model/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/text.hpp"
#include "ops/weights.hpp"

namespace fovea::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFingerprint = "fingerprint";
constexpr std::string_view kImages = "images";

std::string_view stored_type(DType type) {
  return type == DType::kI8 ? "I8" : "F8_E4M3";
}

std::string command(const fs::path& folder, Precision precision) {
  return fmt::format("fovea calibrate {} PHOTOS --precision {}", io::escape(folder.native()),
                     to_string(precision));
}

SafetensorsFile open(const fs::path& folder, Precision precision) {
  const fs::path path = calibration_path(folder, precision);
  std::error_code error;
  if (!fs::exists(path, error)) {
    fail("{}: {} needs a calibrated model; run: {}", io::escape(folder.native()),
         to_string(precision), command(folder, precision));
  }
  try {
    return SafetensorsFile(path);
  } catch (const Error& unreadable) {
    fail("{}; calibrate the model again: {}", unreadable.what(), command(folder, precision));
  }
}

std::vector<float> floats(const StoredTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::span<const std::byte> bytes_of(std::span<const float> values) {
  return std::as_bytes(values);
}

}  // namespace

std::string calibrated_name(std::string_view place, std::int64_t layer) {
  return fmt::format("vision_model.encoder.layers.{}.{}{}", layer,
                     place == "qkv" ? "self_attn." : "mlp.", place);
}

DType calibrated_type(std::string_view place, Precision precision) {
  return precision == Precision::kFp8 && place == kPlaceOfStaticInputs ? DType::kE4M3 : DType::kI8;
}

fs::path calibration_path(const fs::path& folder, Precision precision) {
  return folder / fmt::format("{}{}.safetensors", kCalibrationPrefix, to_string(precision));
}

Calibration::Calibration(const Checkpoint& checkpoint, Precision precision)
    : shown_(io::escape(calibration_path(checkpoint.folder(), precision).native())),
      precision_(precision),
      file_(open(checkpoint.folder(), precision)) {
  std::uint64_t made_for = 0;
  std::memcpy(&made_for, tensor(std::string(kFingerprint), "U64", {1}).bytes.data(),
              sizeof(made_for));
  if (made_for != checkpoint.fingerprint()) {
    fail("{} was made for other weights than the model's; run: {}", shown_,
         command(checkpoint.folder(), precision));
  }
}

const StoredTensor& Calibration::tensor(const std::string& name, std::string_view dtype,
                                        const std::vector<std::uint64_t>& shape) const {
  const auto found = file_.tensors().find(name);
  if (found == file_.tensors().end()) {
    fail("{}: tensor \"{}\" is missing; calibrate the model again", shown_, name);
  }
  const StoredTensor& stored = found->second;
  if (stored.dtype != dtype || stored.shape != shape) {
    fail("{}: tensor \"{}\" is {} {}, expected {} [{}]; calibrate the model again", shown_, name,
         stored.dtype, stored.shape_text(), dtype, fmt::join(shape, ", "));
  }
  return stored;
}

CalibratedLayer Calibration::layer(std::string_view place, std::int64_t index, std::int64_t out,
                                   std::int64_t in) const {
  const std::string name = calibrated_name(place, index);
  const auto rows = static_cast<std::uint64_t>(out);
  const DType type = calibrated_type(place, precision_);
  const StoredTensor& weight =
      tensor(name + ".weight", stored_type(type), {rows, static_cast<std::uint64_t>(in)});
  CalibratedLayer found{
      .rounded = {reinterpret_cast<const std::uint8_t*>(weight.bytes.data()), weight.bytes.size()},
      .scale = floats(tensor(name + ".scale", "F32", {rows})),
      .bias = floats(tensor(name + ".bias", "F32", {rows})),
      .input_scale = floats(tensor(name + ".input_scale", "F32", {1})).front()};
  // 8-bit kernels turn what is not finite into numbers, which nobody would notice.
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(found.scale, finite) || !std::ranges::all_of(found.bias, finite) ||
      !finite(found.input_scale) || found.input_scale < 0) {
    fail("{}: layer {} has a scale or a bias that cannot be; calibrate the model again", shown_,
         name);
  }
  if (place == kPlaceOfStaticInputs && found.input_scale == 0) {
    fail("{}: layer {} has no scale for its inputs; calibrate the model again", shown_, name);
  }
  if (place == kPlaceOfStaticInputs && type == DType::kI8 &&
      found.input_scale < ops::kLeastGeluI8Scale) {
    fail(
        "{}: the inputs of layer {} have a scale for other 8-bit numbers; calibrate the model "
        "again",
        shown_, name);
  }
  return found;
}

std::vector<float> Calibration::divisor(std::string_view place, std::int64_t index,
                                        std::int64_t in) const {
  const std::string name = calibrated_name(place, index);
  std::vector<float> found =
      floats(tensor(name + ".divisor", "F32", {static_cast<std::uint64_t>(in)}));
  if (!std::ranges::all_of(found, [](float value) { return std::isfinite(value) && value > 0; })) {
    fail("{}: layer {} has a divisor that cannot be; calibrate the model again", shown_, name);
  }
  return found;
}

void write_calibration(const Checkpoint& checkpoint, Precision precision,
                       std::span<const LayerToStore> layers, std::int64_t images) {
  std::vector<TensorEntry> entries;
  std::vector<std::span<const std::byte>> data;
  const auto add = [&](std::string name, std::string_view dtype, std::vector<std::int64_t> shape,
                       std::span<const std::byte> bytes) {
    entries.push_back({.name = std::move(name),
                       .dtype = dtype,
                       .shape = std::move(shape),
                       .bytes = bytes.size()});
    data.push_back(bytes);
  };
  const std::uint64_t fingerprint = checkpoint.fingerprint();
  add(std::string(kFingerprint), "U64", {1}, std::as_bytes(std::span(&fingerprint, 1)));
  add(std::string(kImages), "I64", {1}, std::as_bytes(std::span(&images, 1)));
  for (const LayerToStore& layer : layers) {
    add(layer.name + ".weight", stored_type(layer.type), {layer.out, layer.in},
        std::as_bytes(layer.rounded));
    add(layer.name + ".scale", "F32", {layer.out}, bytes_of(layer.scale));
    add(layer.name + ".bias", "F32", {layer.out}, bytes_of(layer.bias));
    add(layer.name + ".input_scale", "F32", {1}, bytes_of({&layer.input_scale, 1}));
    if (!layer.divisor.empty()) {
      add(layer.name + ".divisor", "F32", {layer.in}, bytes_of(layer.divisor));
    }
  }
  io::AtomicFile file(calibration_path(checkpoint.folder(), precision));
  file.write(safetensors_header(entries));
  for (const std::span<const std::byte> bytes : data) {
    file.write(bytes);
  }
  file.commit();
}

}  // namespace fovea::model
