// Texts and labels as they are given on a command line: as they are, or lists of them in files.
#pragma once

#include <string>
#include <vector>

namespace fovea::cli {

/// What the help of an option that takes texts says of lists.
inline constexpr const char* kTextLists =
    "@FILE is a list with one text per line, or one JSON string per line where FILE ends in "
    ".jsonl; - is such a list of lines on the standard input. An empty line is an empty text.";

/// The texts that `inputs` stand for, in their order. A text that begins with @ itself is taken as
/// it is when it is written @@. Throws fovea::Error when a list cannot be read or is not what it
/// has to be.
[[nodiscard]] std::vector<std::string> read_texts(const std::vector<std::string>& inputs);

/// "cat,dog", or a list as read_texts() takes it; without those that are empty.
[[nodiscard]] std::vector<std::string> read_labels(const std::string& text);

}  // namespace fovea::cli
