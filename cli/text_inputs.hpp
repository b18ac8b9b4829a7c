// Options of texts, and the lists that they come in.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "cli/text_lists.hpp"  // IWYU pragma: export
#include "fovea/text.hpp"

namespace fovea::cli {

/// --text-clean.
CLI::Option* add_text_clean(CLI::App& command, std::string& clean);
/// Parses the value of --text-clean.
[[nodiscard]] TextClean text_clean(const std::string& clean);

}  // namespace fovea::cli
