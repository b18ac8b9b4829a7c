// Reads and writes calibration files.
#include "model/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/text.hpp"
#include "ops/call.hpp"
#include "ops/operand_types.hpp"

namespace fovea::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFingerprint = "fingerprint";
constexpr std::string_view kImages = "images";
constexpr std::string_view kBf16Layers = "bf16_layers";

std::string command(const Checkpoint& checkpoint, Precision precision) {
  const std::string named = io::escape(checkpoint.calibrations().native());
  return fmt::format("fovea calibrate {} PHOTOS --precision {}{}{}{}",
                     io::escape(checkpoint.folder().native()), to_string(precision),
                     checkpoint.tower().tower == Tower::kText ? " --text @captions.txt" : "",
                     named.empty() ? "" : " --calibration ", named);
}

SafetensorsFile open(const fs::path& path, const Checkpoint& checkpoint, Precision precision) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    fail("{}: {} needs a calibrated {} (there is no {}); run: {}",
         io::escape(checkpoint.folder().native()), to_string(precision),
         checkpoint.tower().tower == Tower::kVision ? "model" : "text tower",
         io::escape(path.native()), command(checkpoint, precision));
  }
  try {
    return SafetensorsFile(path, checkpoint.stop());
  } catch (const Error& unreadable) {
    rethrow_unless_finding(unreadable);
    fail("{}; calibrate the model again: {}", unreadable.what(), command(checkpoint, precision));
  }
}

}  // namespace

std::string calibrated_name(const TowerSpec& tower, ops::Place place, std::int64_t layer) {
  if (place != ops::Place::kQkv) {
    return tower.stem(place == ops::Place::kFc1 ? Part::kFc1 : Part::kFc2, layer);
  }
  // There is no stem for query, key and value together: replaces the last component of the query's.
  std::string query = tower.stem(Part::kQuery, layer);
  query.resize(query.rfind('.') + 1);
  return query.append(to_string(place));
}

DType calibrated_type(ops::Place place, Precision precision) {
  const ops::OperandTypes& types = ops::operand_types(precision);
  return place == kPlaceOfStaticInputs ? types.inner : types.normed;
}

Calibration::Calibration(const Checkpoint& checkpoint, Precision precision)
    : path_(find_calibration(checkpoint, precision)),
      shown_(io::escape(path_.native())),
      tower_(checkpoint.tower()),
      precision_(precision),
      stop_(checkpoint.stop()),
      file_(open(path_, checkpoint, precision)) {
  if (read<std::uint64_t>(std::string(kFingerprint), "U64", {1})[0] != checkpoint.fingerprint()) {
    fail("{} was made for weights other than those of the model; run: {}", shown_,
         command(checkpoint, precision));
  }
  bf16_layers_ = read_bf16_layers(tower_.layers);
}

std::int64_t Calibration::read_bf16_layers(std::int64_t layers) const {
  if (!file_.tensors().contains(std::string(kBf16Layers))) {
    return 0;
  }
  const std::int64_t found = read<std::int64_t>(std::string(kBf16Layers), "I64", {1})[0];
  if (found < 0 || found > layers) {
    refuse("bf16_layers is {}; expected 0 to {}, the model's number of layers", found, layers);
  }
  for (std::int64_t layer = 0; layer < found; ++layer) {
    for (const ops::Place place : kCalibratedPlaces) {
      if (file_.tensors().contains(calibrated_name(tower_, place, layer) + ".weight")) {
        refuse("layer {} is stored in 8 bits, but the first {} layers are in bf16",
               calibrated_name(tower_, place, layer), found);
      }
    }
  }
  return found;
}

template <typename T>
AlignedBuffer<T> Calibration::read(const std::string& name, std::string_view dtype,
                                   const std::vector<std::uint64_t>& shape) const {
  const auto found = file_.tensors().find(name);
  if (found == file_.tensors().end()) {
    refuse("tensor \"{}\" is missing", name);
  }
  const StoredTensor& stored = found->second;
  if (stored.dtype != dtype || stored.shape != shape) {
    refuse("tensor \"{}\" is {} {}, expected {} [{}]", name, stored.dtype, stored.shape_text(),
           dtype, fmt::join(shape, ", "));
  }
  stop_.poll();
  AlignedBuffer<T> values(stored.bytes / sizeof(T));
  file_.file().read_at(stored.offset, std::as_writable_bytes(values.span()));
  return values;
}

std::vector<float> Calibration::floats(const std::string& name, std::uint64_t count) const {
  const AlignedBuffer<float> values = read<float>(name, "F32", {count});
  return {values.span().begin(), values.span().end()};
}

CalibratedLayer Calibration::layer(ops::Place place, std::int64_t index, std::int64_t out,
                                   std::int64_t in) const {
  const std::string name = calibrated_name(tower_, place, index);
  const auto rows = static_cast<std::uint64_t>(out);
  CalibratedLayer found{.rounded = read<std::uint8_t>(
                            name + ".weight", stored_name(calibrated_type(place, precision_)),
                            {rows, static_cast<std::uint64_t>(in)}),
                        .scale = floats(name + ".scale", rows),
                        .bias = floats(name + ".bias", rows),
                        .input_scale = input_scale(place, index)};
  // 8-bit kernels turn values that are not finite into finite numbers, so errors would go
  // unnoticed.
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(found.scale, finite) || !std::ranges::all_of(found.bias, finite)) {
    refuse("layer {} has an invalid scale or bias", name);
  }
  return found;
}

float Calibration::input_scale(ops::Place place, std::int64_t index) const {
  const std::string name = calibrated_name(tower_, place, index);
  const float scale = floats(name + ".input_scale", 1).front();
  if (!std::isfinite(scale) || scale < 0) {
    refuse("layer {} has an invalid scale for its inputs", name);
  }
  if (place != kPlaceOfStaticInputs) {
    return scale;
  }
  if (scale == 0) {
    refuse("layer {} has no scale for its inputs", name);
  }
  if (calibrated_type(place, precision_) == DType::kI8 && scale < ops::kMinGeluI8Scale) {
    refuse("the inputs of layer {} have a scale for other 8-bit numbers", name);
  }
  return scale;
}

std::vector<float> Calibration::divisor(ops::Place place, std::int64_t index,
                                        std::int64_t in) const {
  const std::string name = calibrated_name(tower_, place, index);
  std::vector<float> found = floats(name + ".divisor", static_cast<std::uint64_t>(in));
  if (!std::ranges::all_of(found, [](float value) { return std::isfinite(value) && value > 0; })) {
    refuse("layer {} has an invalid divisor", name);
  }
  return found;
}

fs::path write_calibration(const Checkpoint& checkpoint, Precision precision,
                           std::span<const LayerToStore> layers, std::int64_t images,
                           std::int64_t bf16_layers) {
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
  if (bf16_layers > 0) {
    add(std::string(kBf16Layers), "I64", {1}, std::as_bytes(std::span(&bf16_layers, 1)));
  }
  for (const LayerToStore& layer : layers) {
    add(layer.name + ".weight", stored_name(layer.type), {layer.out, layer.in},
        std::as_bytes(layer.rounded));
    add(layer.name + ".scale", "F32", {layer.out}, std::as_bytes(layer.scale));
    add(layer.name + ".bias", "F32", {layer.out}, std::as_bytes(layer.bias));
    add(layer.name + ".input_scale", "F32", {1}, std::as_bytes(std::span(&layer.input_scale, 1)));
    if (!layer.divisor.empty()) {
      add(layer.name + ".divisor", "F32", {layer.in}, std::as_bytes(layer.divisor));
    }
  }
  fs::path path = calibration_to_write(checkpoint, precision);
  io::AtomicFile file(path);
  file.write(safetensors_header(entries));
  for (const std::span<const std::byte> bytes : data) {
    file.write(bytes);
  }
  file.commit();
  return path;
}

}  // namespace fovea::model
