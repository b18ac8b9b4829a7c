// What the program prints. Text from outside reaches a terminal only with its control characters
// escaped.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "io/text.hpp"

namespace fovea::cli {

/// Makes descriptors 0 to 2 exist, so that no file opened later becomes the standard output or
/// error. Reads and writes of a descriptor that was closed keep failing.
void reserve_standard_descriptors();

/// Prints "fovea: <text>" on stderr, always as one line.
void say(std::string_view text);

/// The text of `json` for stdout and stderr, with control characters escaped. Bytes that are not
/// UTF-8 are replaced.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// A name as a part of a line, escaped and cut to io::kLongestName.
[[nodiscard]] inline std::string printable_name(std::string_view name) {
  return io::printable(name, io::kLongestName);
}

}  // namespace fovea::cli
