// Finds the family of a model by its JSON files and lets the family parse them.
#include "model/config.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/text.hpp"
#include "model/family.hpp"

namespace fovea::model {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_architecture(std::string_view file, const std::string& type,
                                      Families supported) {
  if (type.ends_with("_text_model")) {
    fail("{}: model_type \"{}\" is a text tower alone; the vision tower is needed", file,
         io::escape(type));
  }
  std::vector<std::string_view> descriptions;
  for (const Family* family : supported) {
    descriptions.push_back(family->description);
  }
  fail("{}: {}; supported are {}", file,
       type.empty()
           ? std::string("has no model_type")
           : fmt::format("model_type \"{}\" is {}", io::escape(type),
                         type.find("clip") == std::string::npos ? "not supported"
                                                                : "a CLIP model, not SigLIP"),
       fmt::join(descriptions, ", "));
}

Preprocessing read_preprocessing(const std::filesystem::path& folder, const VisionConfig& vision) {
  const std::filesystem::path path = folder / "preprocessor_config.json";
  if (io::exists(path)) {
    return parse_preprocessor_config(io::read_small_file(path), io::escape(path.native()), vision);
  }
  const std::filesystem::path whole = folder / "processor_config.json";
  if (io::exists(whole)) {
    const std::string name = io::escape(whole.native());
    const json root = io::parse_json_object(io::read_small_file(whole), name);
    if (const auto processor = Fields(root, name, "").object("image_processor"); processor) {
      return vision.family->preprocessing(*processor);
    }
  }
  fail(
      "{}: there is no such file; it is required because it defines how images are resized (SigLIP "
      "and SigLIP 2 differ): copy it from the model's page on the hub",
      io::escape(path.native()));
}

/// Parses a tower with the first family that accepts its model_type; returns nothing when there is
/// none.
template <typename Config>
std::optional<Config> read_tower(const Fields& fields, Families supported,
                                 std::optional<Config> (*Family::*reader)(const Fields&)) {
  for (const Family* family : supported) {
    std::optional<Config> config =
        family->*reader == nullptr ? std::nullopt : (family->*reader)(fields);
    if (config) {
      config->family = family;
      return config;
    }
  }
  return std::nullopt;
}

template <typename Config>
TowerSpec make_tower(const Config& config, Tower tower, std::int64_t tokens,
                     const TensorNames& names) {
  return {.tower = tower,
          .tokens = tokens,
          .hidden = config.hidden,
          .mlp = config.mlp,
          .layers = config.layers,
          .heads = config.heads,
          .layer_norm_eps = config.layer_norm_eps,
          .activation = config.activation,
          .names = &names};
}

}  // namespace

std::int64_t VisionConfig::grid() const {
  if (!naflex) {
    return image_size / patch;
  }
  return std::lround(std::floor(std::sqrt(static_cast<double>(num_patches))));
}

TowerSpec VisionConfig::tower() const {
  return make_tower(*this, Tower::kVision, tokens(), family->vision_names);
}

TowerSpec TextConfig::tower() const {
  return make_tower(*this, Tower::kText, tokens, family->text_names);
}

VisionConfig parse_config(std::string_view text, std::string_view file, Families supported) {
  const json root = io::parse_json_object(text, file);
  const Fields fields(root, file, "");
  if (const auto config = read_tower(fields, supported, &Family::vision)) {
    return *config;
  }
  refuse_architecture(file, fields.string("model_type", ""), supported);
}

TextConfig parse_text_config(std::string_view text, std::string_view file, Families supported) {
  const json root = io::parse_json_object(text, file);
  const Fields fields(root, file, "");
  if (const auto config = read_tower(fields, supported, &Family::text)) {
    return *config;
  }
  fail("{}: model_type \"{}\" has no text tower, so texts cannot be embedded", file,
       io::escape(fields.string("model_type", "")));
}

Preprocessing parse_preprocessor_config(std::string_view text, std::string_view file,
                                        const VisionConfig& vision) {
  const json root = io::parse_json_object(text, file);
  return vision.family->preprocessing(Fields(root, file, ""));
}

ModelConfig read_model_config(const std::filesystem::path& folder, Families supported) {
  const std::filesystem::path path = folder / "config.json";
  ModelConfig config;
  config.vision = parse_config(io::read_small_file(path), io::escape(path.native()), supported);
  config.preprocessing = read_preprocessing(folder, config.vision);
  if (config.vision.naflex) {
    if (config.preprocessing.patch != config.vision.patch) {
      fail("{}: patch_size is {}, but {} in config.json",
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

TextConfig read_text_config(const std::filesystem::path& folder, Families supported) {
  const std::filesystem::path path = folder / "config.json";
  return parse_text_config(io::read_small_file(path), io::escape(path.native()), supported);
}

}  // namespace fovea::model
