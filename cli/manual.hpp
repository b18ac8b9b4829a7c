// The manual: man pages and docs/cli.md.
#pragma once

#include <string>

#include "cli/describe.hpp"

namespace fovea::cli {

/// The man page of one command, in the language of man(7).
[[nodiscard]] std::string man_page(const CommandText& command);

/// All commands and variables as one Markdown document.
[[nodiscard]] std::string markdown(const CommandText& program);

}  // namespace fovea::cli
