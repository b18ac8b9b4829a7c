// Text of several lines that others have written: a compiler's, a kernel's.
#pragma once

#include <string>
#include <string_view>

namespace fovea::cli {

/// Returns the text with all control characters escaped but those of `kept`.
[[nodiscard]] std::string printable_lines(std::string_view text, std::string_view kept = "\n");

/// Prints an error on stderr with the line breaks that it has; in JSON the event "error".
void say_error_lines(std::string_view text);

}  // namespace fovea::cli
