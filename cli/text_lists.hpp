// Texts and labels on a command line: given directly, or as lists in files.
#pragma once

#include <string>
#include <vector>

namespace fovea::cli {

/// The note on lists for the help of options that take texts.
inline constexpr const char* kTextLists =
    "@FILE is a list with one text per line, or one JSON string per line where FILE ends in "
    ".jsonl; - is such a list of lines on the standard input. An empty line is an empty text.";

/// Returns the texts of `inputs` in order, with lists replaced by their texts. A text that begins
/// with @ is written with @@. Throws fovea::Error when a list cannot be read or is malformed.
[[nodiscard]] std::vector<std::string> read_texts(const std::vector<std::string>& inputs);

/// Returns the labels of "cat,dog", or of a list as for read_texts(), without empty ones.
[[nodiscard]] std::vector<std::string> read_labels(const std::string& text);

}  // namespace fovea::cli
