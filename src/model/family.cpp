// The presets of all families.
#include "model/family.hpp"

#include <vector>

#include "core/error.hpp"

namespace fovea::model {

std::span<const Preset> presets() {
  static const std::vector<Preset> all = [] {
    std::vector<Preset> list;
    for (const Family* family : families()) {
      list.insert(list.end(), family->presets.begin(), family->presets.end());
    }
    return list;
  }();
  return all;
}

const Preset& find_preset(std::string_view name) {
  std::string names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) {
      return preset;
    }
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  fail("unknown preset \"{}\"; use one of {}", name, names);
}

}  // namespace fovea::model
