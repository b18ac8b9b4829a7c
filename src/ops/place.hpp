// Places of the network: where a linear layer stands, and where time is spent.
#pragma once

#include <cstdint>
#include <string_view>

namespace fovea::ops {

enum class Place : std::uint8_t {
  kPixels,  // what prepares pixels for the patch embedding
  kPatchEmbed,
  kLayerNorm,
  kQkv,
  kAttention,
  kOut,
  kFc1,
  kFc2,
  kPool,
  kOther,
};
inline constexpr std::size_t kPlaces = 10;

/// "patch_embed".
[[nodiscard]] std::string_view to_string(Place place);

}  // namespace fovea::ops
