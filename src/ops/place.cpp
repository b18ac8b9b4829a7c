// The names of places.
#include "ops/place.hpp"

#include <array>

namespace fovea::ops {

std::string_view to_string(Place place) {
  constexpr std::array<std::string_view, kPlaces> kNames = {
      "pixels", "patch_embed", "layer_norm", "qkv",  "attention",
      "out",    "fc1",         "fc2",        "pool", "other"};
  return kNames.at(static_cast<std::size_t>(place));
}

}  // namespace fovea::ops
