// Texts on the command line: as they are, or lists of them in files.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "fovea/text.hpp"

namespace fovea::cli {

/// What the help of an option that takes texts says of lists.
inline constexpr const char* kTextLists =
    "@FILE is a list with one text per line, or one JSON string per line where FILE ends in "
    ".jsonl; - is such a list of lines on the standard input. An empty line is an empty text.";

/// The texts that `inputs` stand for, in their order. A text that begins with @ itself is taken as
/// it is when it is written @@. Throws fovea::Error when a list cannot be read or is not what it
/// has to be.
[[nodiscard]] std::vector<std::string> read_texts(const std::vector<std::string>& inputs);

/// --text-clean.
CLI::Option* add_text_clean(CLI::App& command, std::string& clean);
/// Its value.
[[nodiscard]] TextClean text_clean(const std::string& clean);

}  // namespace fovea::cli
