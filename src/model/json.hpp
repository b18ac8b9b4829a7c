// Small JSON files of a model folder, parsed defensively: bounded size and depth, no duplicate
// keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "io/file.hpp"

namespace fovea::model {

/// Largest JSON file read (safetensors headers, which may be larger, have their own streaming
/// parser).
inline constexpr std::size_t kMaxJsonBytes = io::kMaxSmallFileBytes;

/// Parses `text`, which must be one JSON object, UTF-8, without duplicate keys, nested at most 32
/// deep. Throws fovea::Error with `file` (as shown to people) and the byte offset.
[[nodiscard]] nlohmann::json parse_json_object(std::string_view text, std::string_view file);

}  // namespace fovea::model
