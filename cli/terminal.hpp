// What the program prints: on a terminal nothing of a stranger's text but its letters.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "io/text.hpp"

namespace fovea::cli {

/// Makes descriptors 0 to 2 exist, so that no file opened later becomes the standard output or
/// error. Reads and writes of one that was closed keep failing.
void reserve_standard_descriptors();

/// "fovea: <text>" on stderr, as a line of its own, whatever `text` holds.
void say(std::string_view text);

/// JSON for stdout and stderr; nothing in it reaches a terminal raw. Bytes that are no UTF-8 are
/// replaced.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// A name among other things on a line.
[[nodiscard]] inline std::string printable_name(std::string_view name) {
  return io::printable(name, io::kLongestName);
}

}  // namespace fovea::cli
