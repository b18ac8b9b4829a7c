// Architectures from huggingface/transformers@283d692 models/siglip/convert_siglip_to_hf.py.
#include "model/presets.hpp"

#include <array>
#include <string>

#include "core/error.hpp"

namespace fovea::model {
namespace {

constexpr VisionConfig kBase{.hidden = 768, .mlp = 3072, .layers = 12, .heads = 12};
constexpr VisionConfig kLarge{.hidden = 1024, .mlp = 4096, .layers = 24, .heads = 16};
constexpr VisionConfig kSo400m{.hidden = 1152, .mlp = 4304, .layers = 27, .heads = 16};
constexpr VisionConfig kGiant{.hidden = 1536, .mlp = 6144, .layers = 40, .heads = 16};
// A small model that still has several heads of a real head dimension, and an MLP and a grid that
// are not square powers of each other.
constexpr VisionConfig kTiny{.hidden = 128, .mlp = 384, .layers = 3, .heads = 4};

// The published text towers read 64 tokens of Gemma's vocabulary.
constexpr std::int64_t kGemmaVocabulary = 256000;
constexpr TextConfig text(const VisionConfig& like, std::int64_t projection) {
  return {.hidden = like.hidden,
          .mlp = like.mlp,
          .layers = like.layers,
          .heads = like.heads,
          .vocabulary = kGemmaVocabulary,
          .tokens = 64,
          .projection = projection};
}
constexpr TextConfig kTinyText{.hidden = 96,
                               .mlp = 256,
                               .layers = 2,
                               .heads = 3,
                               .vocabulary = kGemmaVocabulary,
                               .tokens = 64,
                               .projection = 128};

constexpr Preset with_text(std::string_view name, const VisionConfig& vision) {
  // The giant's text tower is that of so400m.
  const TextConfig beside = vision.hidden == kTiny.hidden    ? kTinyText
                            : vision.hidden == kGiant.hidden ? text(kSo400m, kGiant.hidden)
                                                             : text(vision, vision.hidden);
  return {.name = name, .vision = vision, .text = beside};
}

constexpr Preset preset(std::string_view name, VisionConfig vision, std::int64_t patch,
                        std::int64_t image_size) {
  vision.patch = patch;
  vision.image_size = image_size;
  return with_text(name, vision);
}

constexpr Preset naflex(std::string_view name, VisionConfig vision, std::int64_t patch,
                        std::int64_t num_patches) {
  vision.patch = patch;
  vision.image_size = 0;
  vision.naflex = true;
  vision.num_patches = vision.max_patches = num_patches;
  return with_text(name, vision);
}

constexpr std::array kPresets{
    preset("tiny", kTiny, 16, 64),
    naflex("tiny-naflex", kTiny, 16, 64),
    preset("base-patch32-256", kBase, 32, 256),
    preset("base-patch16-224", kBase, 16, 224),
    preset("base-patch16-256", kBase, 16, 256),
    preset("base-patch16-384", kBase, 16, 384),
    preset("base-patch16-512", kBase, 16, 512),
    naflex("base-patch16-naflex", kBase, 16, 256),
    preset("large-patch16-256", kLarge, 16, 256),
    preset("large-patch16-384", kLarge, 16, 384),
    preset("large-patch16-512", kLarge, 16, 512),
    preset("so400m-patch14-224", kSo400m, 14, 224),
    preset("so400m-patch14-384", kSo400m, 14, 384),
    preset("so400m-patch16-256", kSo400m, 16, 256),
    preset("so400m-patch16-384", kSo400m, 16, 384),
    preset("so400m-patch16-512", kSo400m, 16, 512),
    naflex("so400m-patch16-naflex", kSo400m, 16, 256),
    preset("giant-opt-patch16-256", kGiant, 16, 256),
    preset("giant-opt-patch16-384", kGiant, 16, 384),
};

}  // namespace

std::span<const Preset> presets() {
  return kPresets;
}

const Preset& find_preset(std::string_view name) {
  std::string names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) {
      return preset;
    }
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  fail("unknown preset \"{}\"; use one of {}", name, names);
}

}  // namespace fovea::model
