// config.json and preprocessor_config.json: defaults filled, everything else checked or refused.
#include "model/config.hpp"

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/text.hpp"

namespace fovea::model {
namespace {

using nlohmann::json;

// Bounds far above every published model (giant: 1536, 6144, 40, 16, 384), low enough that no
// product of them overflows and that a wrong file cannot ask for absurd memory.
constexpr std::int64_t kMaxHidden = 1 << 14;
constexpr std::int64_t kMaxMlp = 1 << 17;
constexpr std::int64_t kMaxLayers = 512;
constexpr std::int64_t kMaxImageSize = 1 << 13;
constexpr std::int64_t kMaxPatch = 512;
constexpr std::int64_t kMaxPatches = 1 << 16;
constexpr std::int64_t kMaxVocabulary = 1 << 24;
constexpr std::int64_t kMaxTokens = 1 << 13;
constexpr std::string_view kFixedType = "siglip";
constexpr std::string_view kNaflexType = "siglip2";
constexpr double kSmallest = 1e-12;  // of numbers that must be positive

/// False for NaN.
bool within(double value, double low, double high) {
  return value >= low && value <= high;
}

/// The fields of one JSON object; errors name the file and the field.
class Fields {
 public:
  Fields(const json& object, std::string_view file, std::string prefix)
      : object_(object), file_(file), prefix_(std::move(prefix)) {}

  /// The field's value; null when absent or null, which Hugging Face's files use alike.
  [[nodiscard]] const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  [[nodiscard]] std::int64_t integer(const char* name, std::int64_t fallback,
                                     std::int64_t max) const {
    const json* value = find(name);
    return value == nullptr ? fallback : checked_integer(*value, name, max);
  }

  /// An integer, or a list of two equal ones (height and width).
  [[nodiscard]] std::int64_t square(const char* name, std::int64_t fallback,
                                    std::int64_t max) const {
    const json* value = find(name);
    if (value != nullptr && value->is_array()) {
      if (value->size() != 2 || (*value)[0] != (*value)[1]) {
        refuse(name, *value, "only squares are supported");
      }
      return checked_integer((*value)[0], name, max);
    }
    return integer(name, fallback, max);
  }

  [[nodiscard]] double number(const char* name, double fallback) const {
    return typed(name, fallback, &json::is_number, "expected a number");
  }
  [[nodiscard]] bool boolean(const char* name, bool fallback) const {
    return typed(name, fallback, &json::is_boolean, "expected true or false");
  }
  [[nodiscard]] std::string string(const char* name, std::string fallback) const {
    return typed(name, std::move(fallback), &json::is_string, "expected a string");
  }

  [[nodiscard]] const json* object(const char* name) const {
    const json* value = find(name);
    if (value != nullptr && !value->is_object()) {
      refuse(name, *value, "expected an object");
    }
    return value;
  }

  [[noreturn]] void refuse(const char* name, std::string_view reason) const {
    refuse(name, *find(name), reason);
  }
  [[noreturn]] void refuse(const char* name, const json& value, std::string_view reason) const {
    std::string shown = value.dump(-1, ' ', true);
    if (shown.size() > 80) {
      shown = shown.substr(0, 77) + "...";
    }
    fail("{}: {}{} is {}: {}", file_, prefix_, name, shown, reason);
  }

  [[nodiscard]] std::int64_t checked_integer(const json& value, const char* name,
                                             std::int64_t max) const {
    if (!value.is_number_integer()) {
      refuse(name, value, "expected an integer");
    }
    // Unsigned numbers beyond int64 would wrap: compare before converting.
    const bool positive = value.is_number_unsigned() && value.get<std::uint64_t>() > 0;
    if (!positive || value.get<std::uint64_t>() > static_cast<std::uint64_t>(max)) {
      refuse(name, value, fmt::format("expected 1 to {}", max));
    }
    return value.get<std::int64_t>();
  }

 private:
  template <typename T>
  [[nodiscard]] T typed(const char* name, T fallback, bool (json::*is_right)() const noexcept,
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

  const json& object_;
  std::string_view file_;
  std::string prefix_;
};

constexpr std::string_view kSupported =
    "SigLIP and SigLIP 2 (model_type \"siglip\", or \"siglip2\" for NaFlex models)";

[[noreturn]] void refuse_architecture(std::string_view file, const std::string& type) {
  if (type == "siglip_text_model" || type == "siglip2_text_model") {
    fail("{}: model_type \"{}\" is a text tower alone; the vision tower is needed", file, type);
  }
  if (type.find("clip") != std::string::npos) {
    fail("{}: model_type \"{}\" is a CLIP model, not SigLIP; supported are {}", file,
         io::escape(type), kSupported);
  }
  fail("{}: model_type \"{}\" is not supported; supported are {}", file, io::escape(type),
       kSupported);
}

/// The fields that both towers have, a VisionConfig or a TextConfig.
template <typename Config>
Config layers_from(const Fields& fields, std::string_view file, const std::string& prefix) {
  Config config;
  config.hidden = fields.integer("hidden_size", config.hidden, kMaxHidden);
  config.mlp = fields.integer("intermediate_size", config.mlp, kMaxMlp);
  config.layers = fields.integer("num_hidden_layers", config.layers, kMaxLayers);
  config.heads = fields.integer("num_attention_heads", config.heads, kMaxHidden);
  config.layer_norm_eps = fields.number("layer_norm_eps", config.layer_norm_eps);
  if (!within(config.layer_norm_eps, kSmallest, 1.0)) {
    fields.refuse("layer_norm_eps", "expected a number between 0 and 1");
  }
  const std::string activation = fields.string("hidden_act", "gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh") {
    fields.refuse("hidden_act",
                  "only gelu_pytorch_tanh is supported (another one gives other embeddings)");
  }
  if (config.hidden % config.heads != 0) {
    fail("{}: {}hidden_size {} is not divisible by num_attention_heads {}", file, prefix,
         config.hidden, config.heads);
  }
  return config;
}

VisionConfig vision_from(const json& object, std::string_view file, const std::string& prefix,
                         bool naflex) {
  const Fields fields(object, file, prefix);
  auto config = layers_from<VisionConfig>(fields, file, prefix);
  config.naflex = naflex;
  config.image_size = naflex ? 0 : fields.square("image_size", config.image_size, kMaxImageSize);
  config.patch = fields.square("patch_size", config.patch, kMaxPatch);
  if (fields.integer("num_channels", 3, kMaxHidden) != 3) {
    fields.refuse("num_channels", "only RGB images are supported");
  }
  config.head = fields.boolean("vision_use_head", true);
  if (naflex) {
    config.num_patches = fields.integer("num_patches", config.num_patches, kMaxPatches);
    if (config.patches() != config.num_patches) {
      fail("{}: {}num_patches {} is not a square: the position table has as many rows as columns",
           file, prefix, config.num_patches);
    }
    return config;
  }
  if (config.image_size < config.patch) {
    fail("{}: {}image_size {} is smaller than patch_size {}", file, prefix, config.image_size,
         config.patch);
  }
  if (config.patches() > kMaxPatches) {
    fail("{}: {}image_size {} with patch_size {} makes {} patches per image (at most {})", file,
         prefix, config.image_size, config.patch, config.patches(), kMaxPatches);
  }
  return config;
}

TextConfig text_from(const json& object, std::string_view file) {
  const std::string prefix = "text_config.";
  const Fields fields(object, file, prefix);
  const std::string type = fields.string("model_type", "siglip_text_model");
  if (type != "siglip_text_model" && type != "siglip2_text_model") {
    fields.refuse("model_type", "only SigLIP's and SigLIP 2's text towers are supported");
  }
  auto config = layers_from<TextConfig>(fields, file, prefix);
  config.vocabulary = fields.integer("vocab_size", config.vocabulary, kMaxVocabulary);
  config.tokens = fields.integer("max_position_embeddings", config.tokens, kMaxTokens);
  config.projection = fields.integer("projection_size", config.hidden, kMaxHidden);
  return config;
}

std::array<float, 3> channels(const Fields& fields, const char* name, bool positive) {
  std::array<float, 3> result{0.5F, 0.5F, 0.5F};
  const json* value = fields.find(name);
  if (value == nullptr) {
    return result;
  }
  if (!value->is_array() || value->size() != 3) {
    fields.refuse(name, *value, "expected three numbers");
  }
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const json& entry = (*value)[channel];
    const double number = entry.is_number() ? entry.get<double>() : std::nan("");
    if (!within(number, positive ? 1e-6 : -1e3, 1e3)) {
      fields.refuse(name, *value, "expected three numbers of a sensible size");
    }
    result[channel] = static_cast<float>(number);
  }
  return result;
}

/// What a NaFlex model's processor has in place of a size.
void read_patches(const Fields& fields, Preprocessing& result) {
  constexpr std::int64_t kDefaultPatch = 16;
  constexpr std::int64_t kDefaultMost = 256;
  result.height = 0;
  result.width = 0;
  result.patch = static_cast<int>(fields.square("patch_size", kDefaultPatch, kMaxPatch));
  result.max_patches =
      static_cast<int>(fields.integer("max_num_patches", kDefaultMost, kMaxPatches));
}

void read_size(const Fields& fields, std::string_view file, Preprocessing& result) {
  const json* size = fields.find("size");
  if (size == nullptr) {
    return;
  }
  if (size->is_number()) {
    result.height = static_cast<int>(fields.checked_integer(*size, "size", kMaxImageSize));
    result.width = result.height;
    return;
  }
  if (!size->is_object() || !size->contains("height") || !size->contains("width")) {
    fields.refuse("size", *size,
                  "expected {\"height\": H, \"width\": W}: images are squashed, not cropped");
  }
  const Fields inner(*size, file, "size.");
  result.height = static_cast<int>(inner.integer("height", 224, kMaxImageSize));
  result.width = static_cast<int>(inner.integer("width", 224, kMaxImageSize));
}

Preprocessing preprocessing_from(const json& object, std::string_view file, bool naflex) {
  const Fields fields(object, file, "");
  const std::string expected = naflex ? "Siglip2ImageProcessor" : "SiglipImageProcessor";
  if (!fields.string("image_processor_type", expected).starts_with(expected)) {
    fields.refuse("image_processor_type",
                  fmt::format("expected {} for {}", expected,
                              naflex ? "a NaFlex model" : "a model of fixed resolution"));
  }
  for (const char* step : {"do_resize", "do_rescale", "do_normalize"}) {
    if (!fields.boolean(step, true)) {
      fields.refuse(step, "this step is always taken; without it the embeddings would differ");
    }
  }
  for (const char* step : {"do_center_crop", "do_pad"}) {
    if (fields.boolean(step, false)) {
      fields.refuse(step, "SigLIP's processors do neither of the two");
    }
  }
  // null keeps the image as it is; Fovea always converts to RGB, as transformers' loader does.
  if (!fields.boolean("do_convert_rgb", true)) {
    fields.refuse("do_convert_rgb", "images are always converted to RGB");
  }
  Preprocessing result;
  // The classes' defaults: transformers 5.23 models/siglip/image_processing_siglip.py and
  // models/siglip2/image_processing_siglip2.py.
  result.resample = naflex ? Resample::kBilinear : Resample::kBicubic;
  if (const json* resample = fields.find("resample"); resample != nullptr) {
    if (*resample == 2) {
      result.resample = Resample::kBilinear;
    } else if (*resample == 3) {
      result.resample = Resample::kBicubic;
    } else {
      fields.refuse("resample", *resample, "only 2 (bilinear) and 3 (bicubic) are supported");
    }
  }
  const double rescale = fields.number("rescale_factor", 1.0 / 255.0);
  if (!within(rescale, kSmallest, 1.0)) {
    fields.refuse("rescale_factor", "expected a number above 0, at most 1");
  }
  result.rescale = static_cast<float>(rescale);
  result.mean = channels(fields, "image_mean", false);
  result.std = channels(fields, "image_std", true);
  if (naflex) {
    read_patches(fields, result);
  } else {
    read_size(fields, file, result);
  }
  return result;
}

Preprocessing read_preprocessing(const std::filesystem::path& folder, bool naflex) {
  const std::filesystem::path path = folder / "preprocessor_config.json";
  if (io::exists(path)) {
    return parse_preprocessor_config(io::read_small_file(path), io::escape(path.native()), naflex);
  }
  const std::filesystem::path whole = folder / "processor_config.json";
  if (io::exists(whole)) {
    const std::string name = io::escape(whole.native());
    const json root = io::parse_json_object(io::read_small_file(whole), name);
    if (const json* inner = Fields(root, name, "").object("image_processor"); inner != nullptr) {
      return preprocessing_from(*inner, name, naflex);
    }
  }
  fail(
      "{}: there is no such file; it says how images are resized (SigLIP and SigLIP 2 differ), so "
      "it is not "
      "guessed: copy it from the model's page on the hub",
      io::escape(path.native()));
}

}  // namespace

std::int64_t VisionConfig::grid() const {
  if (!naflex) {
    return image_size / patch;
  }
  return std::lround(std::floor(std::sqrt(static_cast<double>(num_patches))));
}

VisionConfig parse_config(std::string_view text, std::string_view file) {
  const json root = io::parse_json_object(text, file);
  const Fields fields(root, file, "");
  const std::string type = fields.string("model_type", "");
  const bool naflex = type.starts_with(kNaflexType);
  const std::string tower = std::string(naflex ? kNaflexType : kFixedType) + "_vision_model";
  if (type == tower) {
    return vision_from(root, file, "", naflex);
  }
  if (type.empty()) {
    fail("{}: has no model_type; supported are {}", file, kSupported);
  }
  if (type != kFixedType && type != kNaflexType) {
    refuse_architecture(file, type);
  }
  const json* vision = fields.object("vision_config");
  if (vision == nullptr) {
    // transformers takes the defaults then; a file with a text tower alone looks the same.
    fail("{}: has no vision_config, but the vision tower is needed", file);
  }
  const std::string inner = Fields(*vision, file, "vision_config.").string("model_type", tower);
  if (inner != tower) {
    refuse_architecture(file, inner);
  }
  return vision_from(*vision, file, "vision_config.", naflex);
}

TextConfig parse_text_config(std::string_view text, std::string_view file) {
  const json root = io::parse_json_object(text, file);
  const Fields fields(root, file, "");
  const std::string type = fields.string("model_type", "");
  if (type != "siglip" && type != "siglip2") {
    fail("{}: model_type \"{}\" has no text tower, so texts cannot be embedded", file,
         io::escape(type));
  }
  const json* object = fields.object("text_config");
  return text_from(object == nullptr ? json::object() : *object, file);
}

Preprocessing parse_preprocessor_config(std::string_view text, std::string_view file, bool naflex) {
  return preprocessing_from(io::parse_json_object(text, file), file, naflex);
}

ModelConfig read_model_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  ModelConfig config;
  config.vision = parse_config(io::read_small_file(path), io::escape(path.native()));
  config.preprocessing = read_preprocessing(folder, config.vision.naflex);
  if (config.vision.naflex) {
    if (config.preprocessing.patch != config.vision.patch) {
      fail("{}: patch_size is {}, but that of config.json is {}",
           io::escape((folder / "preprocessor_config.json").native()), config.preprocessing.patch,
           config.vision.patch);
    }
    config.vision.max_patches = config.preprocessing.max_patches;
    return config;
  }
  const auto size = config.vision.image_size;
  if (config.preprocessing.height != size || config.preprocessing.width != size) {
    fail("{}: images are resized to {} x {} (height x width), but config.json's image_size is {}",
         io::escape((folder / "preprocessor_config.json").native()), config.preprocessing.height,
         config.preprocessing.width, size);
  }
  return config;
}

TextConfig read_text_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  return parse_text_config(io::read_small_file(path), io::escape(path.native()));
}

}  // namespace fovea::model
