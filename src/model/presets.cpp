// Architectures from huggingface/transformers@283d692 models/siglip/convert_siglip_to_hf.py.
#include "model/presets.hpp"

#include <array>
#include <string>

#include "core/error.hpp"

namespace fovea::model {
namespace {

constexpr VisionConfig base(std::int64_t patch, std::int64_t image_size) {
  return {.hidden = 768,
          .mlp = 3072,
          .layers = 12,
          .heads = 12,
          .image_size = image_size,
          .patch = patch};
}
constexpr VisionConfig large(std::int64_t image_size) {
  return {.hidden = 1024,
          .mlp = 4096,
          .layers = 24,
          .heads = 16,
          .image_size = image_size,
          .patch = 16};
}
constexpr VisionConfig so400m(std::int64_t patch, std::int64_t image_size) {
  return {.hidden = 1152,
          .mlp = 4304,
          .layers = 27,
          .heads = 16,
          .image_size = image_size,
          .patch = patch};
}
constexpr VisionConfig giant(std::int64_t image_size) {
  return {.hidden = 1536,
          .mlp = 6144,
          .layers = 40,
          .heads = 16,
          .image_size = image_size,
          .patch = 16};
}
// A small model that still has several heads of a real head dimension, and an MLP and a grid that
// are not square powers of each other.
constexpr VisionConfig kTiny{
    .hidden = 128, .mlp = 384, .layers = 3, .heads = 4, .image_size = 64, .patch = 16};

constexpr std::array kPresets{
    Preset{"tiny", kTiny},
    Preset{"base-patch32-256", base(32, 256)},
    Preset{"base-patch16-224", base(16, 224)},
    Preset{"base-patch16-256", base(16, 256)},
    Preset{"base-patch16-384", base(16, 384)},
    Preset{"base-patch16-512", base(16, 512)},
    Preset{"large-patch16-256", large(256)},
    Preset{"large-patch16-384", large(384)},
    Preset{"large-patch16-512", large(512)},
    Preset{"so400m-patch14-224", so400m(14, 224)},
    Preset{"so400m-patch14-384", so400m(14, 384)},
    Preset{"so400m-patch16-256", so400m(16, 256)},
    Preset{"so400m-patch16-384", so400m(16, 384)},
    Preset{"so400m-patch16-512", so400m(16, 512)},
    Preset{"giant-opt-patch16-256", giant(256)},
    Preset{"giant-opt-patch16-384", giant(384)},
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
