// The lines of index, error and input files, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fovea/preprocessing.hpp"
#include "io/descriptor.hpp"

namespace fovea::pipeline {

/// One line of an index file. `source` is the raw name, unescaped.
struct IndexLine {
  std::uint64_t row = 0;
  std::string source;
  int width = 0;
  int height = 0;
  std::optional<io::FileStamp> file = {};  // the file of the image, or the archive that contains it
  std::string sha256 = {};  // of the encoded image, in hexadecimal; "" when not requested
  bool lost_range = false;  // as in image::Image
  PatchGrid patches = {};   // the image's patches, for a NaFlex model
};

/// Returns {"row": 0, "source": "photos/a.jpg", "width": 640, "height": 480, "bytes": 96871,
/// "modified_ns": 1500000000000000000} in one line, and a newline. "bytes" and "modified_ns" are
/// absent for an image that was not read from a file. "sha256" and "lost_range" follow when they
/// are set; for a NaFlex model, "patches": [12, 16] (rows, columns) follows "height".
[[nodiscard]] std::string format_index_line(const IndexLine& line);

/// Parses a line made by format_index_line(); ignores other keys. Throws fovea::Error.
[[nodiscard]] IndexLine parse_index_line(std::string_view text);

/// Returns {"source": ..., "error": ...} and a newline. `source`: the raw name.
[[nodiscard]] std::string format_error_line(std::string_view source, std::string_view error);

/// Returns the raw name in a line made by format_error_line. Throws fovea::Error.
[[nodiscard]] std::string parse_error_source(std::string_view text);

/// Returns an error line with another raw name, and a newline. Throws fovea::Error.
[[nodiscard]] std::string with_error_source(std::string_view text, std::string_view source);

/// Returns the file that a line of a .jsonl input names by "path", "image" or an escaped "source".
/// Throws fovea::Error when the line does not have exactly one of these keys.
[[nodiscard]] std::string parse_input_line(std::string_view text);

}  // namespace fovea::pipeline
