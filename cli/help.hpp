// Help in 80 columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/describe.hpp"

namespace fovea::cli {

inline constexpr std::size_t kHelpColumns = 80;

/// `text` broken at spaces into lines of at most kHelpColumns, each after `indent` spaces (the
/// first one too), with a newline at its end.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent = 0);

/// What `fovea COMMAND --help` prints.
[[nodiscard]] std::string help_text(const CommandText& command);

}  // namespace fovea::cli
