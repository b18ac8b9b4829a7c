// Reads and checks fields of config.json and preprocessor_config.json.
#include "model/json_fields.hpp"

#include <array>
#include <cmath>

namespace fovea::model {
namespace {

constexpr double kMinPositive = 1e-12;  // minimum of numbers that must be positive

/// Whether low <= value <= high; false for NaN.
bool within(double value, double low, double high) {
  return value >= low && value <= high;
}

std::array<float, 3> channels(const Fields& fields, const char* name, bool positive) {
  std::array<float, 3> result{0.5F, 0.5F, 0.5F};
  const Fields::json* value = fields.find(name);
  if (value == nullptr) {
    return result;
  }
  if (!value->is_array() || value->size() != 3) {
    fields.refuse(name, *value, "expected three numbers");
  }
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const Fields::json& entry = (*value)[channel];
    const double number = entry.is_number() ? entry.get<double>() : std::nan("");
    if (!within(number, positive ? 1e-6 : -1e3, 1e3)) {
      fields.refuse(name, *value,
                    positive ? "expected three numbers from 1e-6 to 1000"
                             : "expected three numbers from -1000 to 1000");
    }
    result[channel] = static_cast<float>(number);
  }
  return result;
}

}  // namespace

const Fields::json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::int64_t Fields::integer(const char* name, std::int64_t fallback, std::int64_t max) const {
  const json* value = find(name);
  return value == nullptr ? fallback : checked_integer(*value, name, max);
}

std::int64_t Fields::square(const char* name, std::int64_t fallback, std::int64_t max) const {
  const json* value = find(name);
  if (value != nullptr && value->is_array()) {
    if (value->size() != 2 || (*value)[0] != (*value)[1]) {
      refuse(name, *value, "only squares are supported");
    }
    return checked_integer((*value)[0], name, max);
  }
  return integer(name, fallback, max);
}

template <typename T>
T Fields::typed(const char* name, T fallback, bool (json::*is_right)() const noexcept,
                std::string_view reason) const {
  const json* value = find(name);
  if (value == nullptr) {
    return fallback;
  }
  if (!(value->*is_right)()) {
    refuse(name, *value, reason);
  }
  return value->get<T>();
}

double Fields::number(const char* name, double fallback) const {
  return typed(name, fallback, &json::is_number, "expected a number");
}

bool Fields::boolean(const char* name, bool fallback) const {
  return typed(name, fallback, &json::is_boolean, "expected true or false");
}

std::string Fields::string(const char* name, std::string fallback) const {
  return typed(name, std::move(fallback), &json::is_string, "expected a string");
}

std::optional<Fields> Fields::object(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_object()) {
    refuse(name, *value, "expected an object");
  }
  return Fields(*value, file_, fmt::format("{}{}.", prefix_, name));
}

void Fields::refuse(const char* name, const json& value, std::string_view reason) const {
  std::string shown = value.dump(-1, ' ', true);
  if (shown.size() > 80) {
    shown = shown.substr(0, 77) + "...";
  }
  fail("{}: {}{} is {}: {}", file_, prefix_, name, shown, reason);
}

std::int64_t Fields::checked_integer(const json& value, const char* name, std::int64_t max) const {
  if (!value.is_number_integer()) {
    refuse(name, value, "expected an integer");
  }
  // Compares before converting, since unsigned numbers beyond int64 would wrap.
  const bool positive = value.is_number_unsigned() && value.get<std::uint64_t>() > 0;
  if (!positive || value.get<std::uint64_t>() > static_cast<std::uint64_t>(max)) {
    refuse(name, value, fmt::format("expected 1 to {}", max));
  }
  return value.get<std::int64_t>();
}

template <typename Config>
void read_layers(const Fields& fields, std::string_view activation, Config& config) {
  config.hidden = fields.integer("hidden_size", config.hidden, kMaxHidden);
  config.mlp = fields.integer("intermediate_size", config.mlp, kMaxMlp);
  config.layers = fields.integer("num_hidden_layers", config.layers, kMaxLayers);
  config.heads = fields.integer("num_attention_heads", config.heads, kMaxHidden);
  config.layer_norm_eps = fields.number("layer_norm_eps", config.layer_norm_eps);
  if (!within(config.layer_norm_eps, kMinPositive, 1.0)) {
    fields.refuse("layer_norm_eps", "expected a number between 0 and 1");
  }
  if (fields.string("hidden_act", std::string(activation)) != activation) {
    fields.refuse("hidden_act", fmt::format("only {} is supported", activation));
  }
  if (config.hidden % config.heads != 0) {
    fields.refuse_value("hidden_size {} is not divisible by num_attention_heads {}", config.hidden,
                        config.heads);
  }
}
template void read_layers(const Fields&, std::string_view, VisionConfig&);
template void read_layers(const Fields&, std::string_view, TextConfig&);

void read_grid(const Fields& fields, VisionConfig& config) {
  config.image_size = fields.square("image_size", config.image_size, kMaxImageSize);
  config.patch = fields.square("patch_size", config.patch, kMaxPatch);
  if (config.image_size < config.patch) {
    fields.refuse_value("image_size {} is smaller than patch_size {}", config.image_size,
                        config.patch);
  }
  if (config.patches() > kMaxPatches) {
    fields.refuse_value("image_size {} with patch_size {} makes {} patches per image (at most {})",
                        config.image_size, config.patch, config.patches(), kMaxPatches);
  }
}

std::optional<Fields> vision_fields(const Fields& config, std::string_view model,
                                    const std::string& tower) {
  const std::string type = config.string("model_type", "");
  if (type == tower) {
    return config;
  }
  if (type != model) {
    return std::nullopt;
  }
  std::optional<Fields> vision = config.object("vision_config");
  if (!vision) {
    // transformers uses the defaults, but the file may also describe only a text tower.
    fail("{}: has no vision_config, but the vision tower is needed", config.file());
  }
  if (vision->string("model_type", tower) != tower) {
    vision->refuse("model_type", fmt::format("expected \"{}\" within \"{}\"", tower, model));
  }
  return vision;
}

Preprocessing read_pixels(const Fields& fields, Resample default_filter) {
  for (const char* step : {"do_resize", "do_rescale", "do_normalize"}) {
    if (!fields.boolean(step, true)) {
      fields.refuse(step, "only true is supported, since this step is always performed");
    }
  }
  // Null disables the conversion in transformers; Fovea always converts to RGB, as transformers'
  // image loader does.
  if (!fields.boolean("do_convert_rgb", true)) {
    fields.refuse("do_convert_rgb",
                  "only true is supported, since images are always converted to RGB");
  }
  Preprocessing result;
  result.resample = default_filter;
  if (const Fields::json* resample = fields.find("resample"); resample != nullptr) {
    if (*resample == 2) {
      result.resample = Resample::kBilinear;
    } else if (*resample == 3) {
      result.resample = Resample::kBicubic;
    } else {
      fields.refuse("resample", *resample, "only 2 (bilinear) and 3 (bicubic) are supported");
    }
  }
  const double rescale = fields.number("rescale_factor", 1.0 / 255.0);
  if (!within(rescale, kMinPositive, 1.0)) {
    fields.refuse("rescale_factor", "expected a number greater than 0 and at most 1");
  }
  result.rescale = static_cast<float>(rescale);
  result.mean = channels(fields, "image_mean", false);
  result.std = channels(fields, "image_std", true);
  return result;
}

void read_size(const Fields& fields, Preprocessing& result) {
  const Fields::json* size = fields.find("size");
  if (size == nullptr) {
    return;
  }
  if (size->is_number()) {
    result.height = static_cast<int>(fields.checked_integer(*size, "size", kMaxImageSize));
    result.width = result.height;
    return;
  }
  const std::optional<Fields> sides = size->is_object() ? fields.object("size") : std::nullopt;
  if (!sides || !size->contains("height") || !size->contains("width")) {
    fields.refuse("size", *size,
                  "expected {\"height\": H, \"width\": W}, since images are not cropped");
  }
  result.height = static_cast<int>(sides->integer("height", 224, kMaxImageSize));
  result.width = static_cast<int>(sides->integer("width", 224, kMaxImageSize));
}

}  // namespace fovea::model
